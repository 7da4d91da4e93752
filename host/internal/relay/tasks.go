package relay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plughost/plughost/shared/wire"
)

// Tasks are calls whose results are fetched later, in the revision that has them
// (2025-11-25). Services give them their ids, so that a session of a join has to
// know whose an id is.

const (
	// withTasks is the revision with sessions that has tasks.
	withTasks = "2025-11-25"
	// maxTasks bounds those that a session knows. It forgets the oldest.
	maxTasks = 10_000
	// maxTaskID is how many bytes the id of one may have that a session knows.
	maxTaskID = 1024
)

// tasks are the services of tasks.
type tasks struct {
	service map[string]*Service
	ids     []string // the oldest first
}

func (t *tasks) add(id string, service *Service) {
	if t.service == nil {
		t.service = make(map[string]*Service)
	}
	if t.service[id] == nil {
		t.ids = append(t.ids, id)
	}
	t.service[id] = service
	if len(t.ids) > maxTasks {
		delete(t.service, t.ids[0])
		t.ids = t.ids[1:]
	}
}

// forget forgets those of some services.
func (t *tasks) forget(gone func(*Service) bool) {
	t.ids = slices.DeleteFunc(t.ids, func(id string) bool {
		remove := gone(t.service[id])
		if remove {
			delete(t.service, id)
		}
		return remove
	})
}

// learnTask takes the id of a task that is somewhere in an answer of a service that
// the session has.
func (s *session) learnTask(service *Service, answer *wire.Message, at wire.Span, path ...string) {
	found, err := answer.Find(at, path...)
	id, ok := wire.Text(answer.Bytes(found))
	if err != nil || !ok || len(id) > maxTaskID {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attachment(service) != nil {
		s.memory.set(func() { s.memory.tasks.add(string(id), service) })
	}
}

func (y *memory) taskAt(id string) *Service {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.tasks.service[id]
}

// begins has a session know the task that a call begins, if it is to begin one.
func (s *session) begins(rt route, m *wire.Message) (route, error) {
	task, err := m.Param("task")
	if err != nil {
		return route{}, err
	}
	if task.Found() {
		rt.edit = func(answer *wire.Message) *wire.Message {
			s.learnTask(rt.to, answer, answer.Result, "task", "taskId")
			return answer
		}
	}
	return rt, nil
}

// toTask has the service of a task take a request about it.
func (j *Join) toTask(s *session, g Grants, m *wire.Message) (route, error) {
	at, err := m.Param("taskId")
	if err != nil {
		return route{}, err
	}
	id, _ := wire.Text(m.Bytes(at))
	service := s.memory.taskAt(string(id))
	if service == nil || !j.reaches(g, service) {
		return route{}, refusef(wire.CodeInvalidParams, "there is no task %q", id)
	}
	return route{to: service, message: m}, nil
}

// toTasks has one service after the other list the session's tasks: a cursor is
// the service's name, and its own cursor behind a space.
func (j *Join) toTasks(s *session, g Grants, m *wire.Message) (route, error) {
	at, err := m.Param("cursor")
	if err != nil {
		return route{}, err
	}
	cursor, _ := wire.Text(m.Bytes(at))
	services := slices.DeleteFunc(s.used(), func(service *Service) bool {
		return !service.latest().listsTasks || !j.reaches(g, service)
	})
	name, own, _ := strings.Cut(string(cursor), " ")
	if name == "" && len(services) > 0 {
		name = services[0].name
	}
	i := slices.IndexFunc(services, func(service *Service) bool { return service.name == name })
	switch {
	case i < 0 && len(cursor) > 0:
		return route{}, refusef(wire.CodeInvalidParams, "there is no page at the cursor %q", cursor)
	case i < 0:
		return route{result: []byte(`{"tasks":[]}`)}, nil
	}
	next := ""
	if i+1 < len(services) {
		next = services[i+1].name
	}
	params := "{}"
	if own != "" {
		params = fmt.Sprintf(`{"cursor":%s}`, quoted(own))
	}
	request, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tasks/list","params":%s}`, m.Bytes(m.ID), params))
	if err != nil {
		return route{}, err
	}
	edit := func(answer *wire.Message) *wire.Message { return s.tasksListed(services[i], answer, next) }
	return route{to: services[i], message: &request, edit: edit}, nil
}

// tasksListed takes a service's list of tasks, and has its end be that of a page.
func (s *session) tasksListed(service *Service, answer *wire.Message, next string) *wire.Message {
	picked, err := answer.Pick(answer.Result, "tasks", "nextCursor")
	if err != nil || !picked[0].Found() {
		return answer
	}
	list, cursor := picked[0], picked[1]
	for task := range answer.Elements(list) {
		s.learnTask(service, answer, task, "taskId")
	}
	if own, ok := wire.Text(answer.Bytes(cursor)); ok && len(own) > 0 {
		next = service.name + " " + string(own)
	}
	var page wire.Message
	switch {
	case cursor.Found():
		page = answer.With(cursor, quoted(next))
	case next != "": // behind the list
		page = answer.With(list, fmt.Appendf(slices.Clone(answer.Bytes(list)), `,"nextCursor":%s`, quoted(next)))
	default:
		return answer
	}
	return &page
}
