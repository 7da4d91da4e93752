package agents

import (
	"slices"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// maxTasks bounds how many tasks of an agent are remembered; the oldest are
// forgotten first.
const maxTasks = 1000

// tasks are those of an agent that have not ended, as far as its clients have
// seen them. If the process that has them in hand ends first they have failed,
// and that is remembered: nobody else could tell.
type tasks struct {
	mu    sync.Mutex
	known map[a2a.TaskID]*record
	order []a2a.TaskID // the oldest first
}

// record is what is remembered of a task.
type record struct {
	info    a2a.TaskInfo
	owner   string    // whose task it is
	by      *instance // that has it in hand
	end     *a2a.Task // what became of it, if by ended before it did
	watched bool      // by the front itself
}

func newTasks() *tasks { return &tasks{known: make(map[a2a.TaskID]*record)} }

// saw takes note of what an instance said of a task, to its owner.
func (t *tasks) saw(by *instance, owner string, event a2a.Event) {
	info := event.TaskInfo()
	if info.TaskID == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if stateOf(event).Terminal() {
		t.forget(info.TaskID)
		return
	}
	if _, isMessage := event.(*a2a.Message); isMessage {
		return
	}
	r := t.record(info, owner)
	r.by, r.end = by, nil
	if reason := by.ended(); reason != nil {
		r.fail(reason)
	}
}

// lose ends an instance, has all tasks fail that it had in hand, and returns
// them.
func (t *tasks) lose(by *instance, reason error) (failed []*a2a.Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.known {
		if r.by == by && r.end == nil {
			r.fail(reason)
			failed = append(failed, r.end)
		}
	}
	by.end(reason)
	return failed
}

// end returns a task of an owner that failed with its instance, or nil.
func (t *tasks) end(owner string, id a2a.TaskID) *a2a.Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.known[id]; r != nil && r.owner == owner && r.end != nil {
		end := *r.end
		return &end
	}
	return nil
}

// knows reports whether a task is remembered.
func (t *tasks) knows(id a2a.TaskID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[id] != nil
}

// watched reports whether a task is.
func (t *tasks) watched(id a2a.TaskID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.known[id]
	return r != nil && r.watched
}

// watch marks a task as watched, and reports whether it was not, and whose it
// is.
func (t *tasks) watch(id a2a.TaskID) (owner string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.known[id]
	if r == nil || r.end != nil || r.watched {
		return "", false
	}
	r.watched = true
	return r.owner, true
}

// unwatch is the end of a watch.
func (t *tasks) unwatch(id a2a.TaskID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.known[id]; r != nil {
		r.watched = false
	}
}

// record returns the record of a task, a new one if it has none. The lock is
// held.
func (t *tasks) record(info a2a.TaskInfo, owner string) *record {
	if r := t.known[info.TaskID]; r != nil {
		return r
	}
	if len(t.order) == maxTasks {
		t.forget(t.order[0])
	}
	r := &record{info: info, owner: owner}
	t.known[info.TaskID] = r
	t.order = append(t.order, info.TaskID)
	return r
}

// forget drops the record of a task. The lock is held.
func (t *tasks) forget(id a2a.TaskID) {
	if _, ok := t.known[id]; !ok {
		return
	}
	delete(t.known, id)
	t.order = slices.DeleteFunc(t.order, func(other a2a.TaskID) bool { return other == id })
}

// fail is the end of a task for a reason that is not the agent's own.
func (r *record) fail(reason error) {
	message := a2a.NewMessageForTask(a2a.MessageRoleAgent, r.info, a2a.NewTextPart(reason.Error()))
	update := a2a.NewStatusUpdateEvent(r.info, a2a.TaskStateFailed, message)
	r.end = &a2a.Task{ID: r.info.TaskID, ContextID: r.info.ContextID, Status: update.Status}
}

// stateOf is the state of the task that an event tells, if it tells one.
func stateOf(event a2a.Event) a2a.TaskState {
	switch event := event.(type) {
	case *a2a.Task:
		return event.Status.State
	case *a2a.TaskStatusUpdateEvent:
		return event.Status.State
	}
	return a2a.TaskStateUnspecified
}

// rests reports whether an agent does nothing about a task in this state: it is
// over, or waits for its client.
func rests(state a2a.TaskState) bool {
	return state.Terminal() || state == a2a.TaskStateInputRequired || state == a2a.TaskStateAuthRequired
}
