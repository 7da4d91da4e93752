package agents

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/config"
)

// fakeTransport is an agent that has some tasks, and says how each goes on.
type fakeTransport struct {
	transport
	list   []*a2a.Task
	events map[a2a.TaskID][]a2a.Event
}

func (f *fakeTransport) ListTasks(_ context.Context, _ a2aclient.ServiceParams, r *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	response := &a2a.ListTasksResponse{}
	for _, task := range f.list {
		if task.Status.State == r.Status {
			response.Tasks = append(response.Tasks, task)
		}
	}
	return response, nil
}

func (f *fakeTransport) SubscribeToTask(ctx context.Context, _ a2aclient.ServiceParams, r *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		events, ok := f.events[r.ID]
		if !ok {
			yield(nil, a2a.ErrTaskNotFound)
			return
		}
		for _, event := range events {
			if !yield(event, nil) || stateOf(event).Terminal() {
				return
			}
		}
		<-ctx.Done()
	}
}

func (f *fakeTransport) GetTask(ctx context.Context, _ a2aclient.ServiceParams, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	if err := ctx.Err(); err != nil { // the instance has ended
		return nil, err
	}
	return task(r.ID, a2a.TaskStateCompleted), nil
}

func task(id a2a.TaskID, state a2a.TaskState) *a2a.Task {
	return &a2a.Task{ID: id, ContextID: "c", Status: a2a.TaskStatus{State: state}}
}

func update(id a2a.TaskID, state a2a.TaskState) *a2a.TaskStatusUpdateEvent {
	return &a2a.TaskStatusUpdateEvent{TaskID: id, ContextID: "c", Status: a2a.TaskStatus{State: state}}
}

// newFakeInstance makes an instance with a front; wait returns when the front
// does nothing by itself any more.
func newFakeInstance(t *testing.T, agent transport) (f *Front, i *instance, wait func()) {
	t.Helper()
	running := &sync.WaitGroup{}
	f = NewFront(t.Context(), "echo", &Address{}, running, hclog.NewNullLogger())
	i = &instance{transport: agent}
	i.life, i.end = context.WithCancelCause(t.Context())
	return f, i, running.Wait
}

func TestTasksThatAnInstanceHasAreTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, i, _ := newFakeInstance(t, &fakeTransport{
			list: []*a2a.Task{
				task("goes on", a2a.TaskStateWorking), task("ends", a2a.TaskStateWorking), task("gone", a2a.TaskStateSubmitted),
				task("asks", a2a.TaskStateInputRequired), task("over", a2a.TaskStateCompleted),
			},
			events: map[a2a.TaskID][]a2a.Event{
				"goes on": {task("goes on", a2a.TaskStateWorking)},
				"ends":    {task("ends", a2a.TaskStateWorking), update("ends", a2a.TaskStateCompleted)},
			},
		})
		f.takeOver(i)
		synctest.Wait()
		f.tasks.lose(i, errors.New("it was killed"))
		for id, failed := range map[a2a.TaskID]bool{"goes on": true, "asks": true, "ends": false, "gone": false, "over": false} {
			end := f.tasks.end("", id)
			if failed != (end != nil) {
				t.Errorf("%s: %+v", id, end)
			}
			if end != nil && (end.ContextID != "c" || reasonOf(end) != "it was killed") {
				t.Errorf("%s: %+v", id, end)
			}
		}
	})
}

func TestTasksOfAnotherInstanceDoNotFail(t *testing.T) {
	f, first, _ := newFakeInstance(t, &fakeTransport{})
	_, second, _ := newFakeInstance(t, &fakeTransport{})
	f.tasks.saw(first, "", task("1", a2a.TaskStateInputRequired))
	f.tasks.saw(second, "", task("2", a2a.TaskStateInputRequired))
	f.tasks.lose(first, errors.New("killed"))
	if f.tasks.end("", "1") == nil || f.tasks.end("", "2") != nil {
		t.Errorf("ends %+v and %+v", f.tasks.end("", "1"), f.tasks.end("", "2"))
	}
}

func TestWhatIsReadAfterTheEndOfTheInstance(t *testing.T) {
	f, i, _ := newFakeInstance(t, &fakeTransport{})
	f.tasks.lose(i, &endedError{agent: "echo"})
	f.tasks.saw(i, "", update("late", a2a.TaskStateWorking))
	if f.tasks.end("", "late") == nil {
		t.Error("a task is still in hand")
	}
	f.tasks.saw(i, "", update("late", a2a.TaskStateCompleted))
	if end := f.tasks.end("", "late"); end != nil {
		t.Errorf("a task that was completed is %+v", end)
	}
}

func TestTaskOfAnotherIsNotTold(t *testing.T) {
	f, i, _ := newFakeInstance(t, &fakeTransport{})
	f.tasks.saw(i, "alice", task("1", a2a.TaskStateInputRequired))
	f.tasks.lose(i, errors.New("killed"))
	if f.tasks.end("alice", "1") == nil || f.tasks.end("bob", "1") != nil || f.tasks.end("", "1") != nil {
		t.Error("a task is not its owner's alone")
	}
}

func TestMessagesAreNoTasks(t *testing.T) {
	f, i, _ := newFakeInstance(t, &fakeTransport{})
	message := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("hi"))
	f.tasks.saw(i, "", message)
	message.TaskID = "1"
	f.tasks.saw(i, "", message)
	if len(f.tasks.known) > 0 {
		t.Errorf("known %v", f.tasks.known)
	}
}

func TestTasksAreBounded(t *testing.T) {
	f, i, _ := newFakeInstance(t, &fakeTransport{})
	for n := range maxTasks + 5 {
		f.tasks.saw(i, "", task(a2a.TaskID(fmt.Sprint(n)), a2a.TaskStateInputRequired))
	}
	f.tasks.lose(i, errors.New("killed"))
	if len(f.tasks.known) != maxTasks || len(f.tasks.order) != maxTasks || f.tasks.end("", "4") != nil || f.tasks.end("", "5") == nil {
		t.Errorf("%d tasks are known, in the order of %d", len(f.tasks.known), len(f.tasks.order))
	}
}

func TestStreamsAreBounded(t *testing.T) {
	f, i, _ := newFakeInstance(t, &fakeTransport{events: map[a2a.TaskID][]a2a.Event{"1": {update("1", a2a.TaskStateCompleted)}}})
	f.instance = i
	handler := &forward{Front: f}
	for range maxStreams {
		if _, err := handler.openStream(); err != nil {
			t.Fatal(err)
		}
	}
	subscribe := func() error {
		var last error
		for _, err := range handler.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: "1"}) {
			last = err
		}
		return last
	}
	if err := subscribe(); !errors.Is(err, a2a.ErrServerError) {
		t.Errorf("one stream more: error %v", err)
	}
	<-f.streams
	for range 2 {
		if err := subscribe(); err != nil {
			t.Errorf("when one has ended: %v", err)
		}
	}
}

func TestPushConfigsOfForgottenTasksGiveWay(t *testing.T) {
	f, i, _ := newFakeInstance(t, &fakeTransport{})
	f.pushes.configure(config.Push{Allow: []string{"https://*"}})
	for n := range maxPushTasks + 5 {
		id := a2a.TaskID(fmt.Sprint(n))
		f.tasks.saw(i, "", task(id, a2a.TaskStateInputRequired))
		if _, err := f.pushes.add(id, &a2a.PushConfig{URL: "https://example.org"}); err != nil {
			t.Fatalf("of task %d: %v", n, err)
		}
	}
	if len(f.pushes.of) > maxPushTasks {
		t.Errorf("%d tasks have some", len(f.pushes.of))
	}
}
