package main

import (
	"context"
	"encoding/json"

	"github.com/plughost/plughost/shared/wire"
)

// A task goes on when the request that began it was answered. A server takes
// all sessions for one client, so that whose task it is, and that nobody else
// sees it, is seen to here.

const (
	// maxTasks bounds those that a session has. It forgets the oldest.
	maxTasks = 10_000
	// maxTaskID is how many bytes the id of one may have.
	maxTaskID = 1024
)

// taskOf is the id of the task that a message is about.
func taskOf(message wire.Message) string {
	span, err := message.Param("taskId")
	if err != nil {
		return ""
	}
	id, _ := wire.Text(message.Bytes(span))
	return string(id)
}

// begun takes note of whose a task is that a request has begun.
func (m *mux) begun(s *member, answer wire.Message) {
	var result struct {
		Task struct {
			ID string `json:"taskId"`
		} `json:"task"`
	}
	if json.Unmarshal(answer.Bytes(answer.Result), &result) != nil {
		return
	}
	id := result.Task.ID
	if id == "" || len(id) > maxTaskID || m.tasks[id] == s {
		return
	}
	m.tasks[id] = s
	s.tasks = append(s.tasks, id)
	if len(s.tasks) > maxTasks {
		m.forgetTask(s, s.tasks[0])
		s.tasks = s.tasks[1:]
	}
}

// forgetTask forgets a task of a client, unless it is another one's by now.
func (m *mux) forgetTask(s *member, id string) {
	if m.tasks[id] == s {
		delete(m.tasks, id)
	}
}

// task passes on a request about a task, if that is the client's own.
func (s *member) task(ctx context.Context, message wire.Message) error {
	s.mux.mu.Lock()
	own := s.mux.tasks[taskOf(message)] == s
	s.mux.mu.Unlock()
	if !own {
		s.client.refuse(message, wire.CodeInvalidParams, "there is no such task")
		return nil
	}
	return s.forward(ctx, message, &call{})
}

// taskChanged tells of a task whose it is.
func (m *mux) taskChanged(message wire.Message) {
	if s := m.tasks[taskOf(message)]; s != nil {
		s.client.put(message.Raw)
	}
}

// withoutTaskList returns a server's capabilities without that of listing tasks,
// which would be those of all clients.
func withoutTaskList(capabilities json.RawMessage) json.RawMessage {
	var all, tasks map[string]json.RawMessage
	if json.Unmarshal(capabilities, &all) != nil || json.Unmarshal(all["tasks"], &tasks) != nil {
		return capabilities
	}
	delete(tasks, "list")
	var err error
	if all["tasks"], err = json.Marshal(tasks); err != nil {
		return capabilities
	}
	changed, err := json.Marshal(all)
	if err != nil {
		return capabilities
	}
	return changed
}
