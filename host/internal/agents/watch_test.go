package agents

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/plughost/plughost/host/internal/config"
)

var errKilled = errors.New("it was killed")

// breakingTransport is an agent whose streams break off before their tasks are
// over.
type breakingTransport struct {
	transport
	streams atomic.Int32
	breaks  int32 // so often
	failing bool  // with an error
}

func (b *breakingTransport) SubscribeToTask(_ context.Context, _ a2aclient.ServiceParams, r *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		n := b.streams.Add(1)
		if !yield(task(r.ID, a2a.TaskStateWorking), nil) {
			return
		}
		switch {
		case n > b.breaks:
			yield(update(r.ID, a2a.TaskStateCompleted), nil)
		case b.failing:
			yield(nil, a2a.ErrServerError)
		}
	}
}

func (b *breakingTransport) GetTask(_ context.Context, _ a2aclient.ServiceParams, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	return task(r.ID, a2a.TaskStateWorking), nil
}

// As when a proxy before a remote agent ends what is quiet for a minute.
func TestTaskIsFollowedToItsEndThoughStreamsBreakOff(t *testing.T) {
	for name, failing := range map[string]bool{"with an error": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, i, wait := newFakeInstance(t, &breakingTransport{breaks: 3, failing: failing})
				f.tasks.saw(i, "", task("1", a2a.TaskStateWorking))
				f.watch(i, "1")
				wait()
				f.tasks.lose(i, errKilled)
				if end := f.tasks.end("", "1"); end != nil {
					t.Errorf("a task that was completed is %+v", end)
				}
			})
		})
	}
}

func TestTaskThatTheAgentForgotIsNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, i, wait := newFakeInstance(t, &forgetfulTransport{})
		f.tasks.saw(i, "", task("1", a2a.TaskStateWorking))
		f.watch(i, "1")
		wait()
	})
}

// forgetfulTransport is an agent that knows no task any more.
type forgetfulTransport struct{ transport }

func (*forgetfulTransport) SubscribeToTask(context.Context, a2aclient.ServiceParams, *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) { yield(nil, a2a.ErrTaskNotFound) }
}

func (*forgetfulTransport) GetTask(context.Context, a2aclient.ServiceParams, *a2a.GetTaskRequest) (*a2a.Task, error) {
	return nil, a2a.ErrTaskNotFound
}

// An agent without streams is asked now and then; that a task works on is told
// once.
func TestTaskOfAnAgentWithoutStreamsIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, i, wait := newFakeInstance(t, &silentTransport{})
		f.tasks.saw(i, "", task("1", a2a.TaskStateSubmitted))
		f.watch(i, "1")
		wait()
		f.tasks.lose(i, errKilled)
		if end := f.tasks.end("", "1"); end != nil {
			t.Errorf("a task that was completed is %+v", end)
		}
	})
}

// silentTransport is an agent that streams nothing, and takes its time.
type silentTransport struct {
	transport
	asked atomic.Int32
}

func (*silentTransport) SubscribeToTask(context.Context, a2aclient.ServiceParams, *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) { yield(nil, a2a.ErrUnsupportedOperation) }
}

func (s *silentTransport) GetTask(_ context.Context, _ a2aclient.ServiceParams, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	if s.asked.Add(1) == 5 {
		return task(r.ID, a2a.TaskStateCompleted), nil
	}
	return task(r.ID, a2a.TaskStateWorking), nil
}

// endingTransport is an agent with a task that waits for its client, and ends
// upon a message, or when it is canceled.
type endingTransport struct{ fakeTransport }

func (*endingTransport) SendMessage(_ context.Context, _ a2aclient.ServiceParams, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return task(r.Message.TaskID, a2a.TaskStateCompleted), nil
}

func (*endingTransport) SendStreamingMessage(_ context.Context, _ a2aclient.ServiceParams, r *a2a.SendMessageRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) { yield(update(r.Message.TaskID, a2a.TaskStateCompleted), nil) }
}

func (*endingTransport) CancelTask(_ context.Context, _ a2aclient.ServiceParams, r *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return task(r.ID, a2a.TaskStateCanceled), nil
}

func TestEndThatARequestBringsAboutIsToldOf(t *testing.T) {
	more := &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("more"))}
	more.Message.TaskID = "1"
	for name, request := range map[string]func(*forward) error{
		"a message": func(f *forward) error {
			_, err := f.SendMessage(t.Context(), more)
			return err
		},
		"a message and its stream": func(f *forward) (last error) {
			for _, last = range f.SendStreamingMessage(t.Context(), more) {
			}
			return last
		},
		"a cancellation": func(f *forward) error {
			_, err := f.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: "1"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			url, count := answers(t, http.StatusOK)
			f, i, wait := newFakeInstance(t, &endingTransport{})
			f.instance = i
			f.pushes.configure(config.Push{Allow: []string{url}})
			f.tasks.saw(i, "", task("1", a2a.TaskStateInputRequired))
			if _, err := f.pushes.add("1", &a2a.PushConfig{URL: url}); err != nil {
				t.Fatal(err)
			}
			if err := request(&forward{Front: f}); err != nil {
				t.Fatal(err)
			}
			wait()
			if n := count.Load(); n != 1 || f.pushes.wanted("1") {
				t.Errorf("%d notifications, and more are wanted: %v", n, f.pushes.wanted("1"))
			}
		})
	}
}

// askingTransport is an agent with a task that always wants more of its client.
type askingTransport struct{ fakeTransport }

func (*askingTransport) SendMessage(_ context.Context, _ a2aclient.ServiceParams, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return task(r.Message.TaskID, a2a.TaskStateInputRequired), nil
}

func (*askingTransport) GetTask(_ context.Context, _ a2aclient.ServiceParams, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	return task(r.ID, a2a.TaskStateInputRequired), nil
}

// Who waits for the notifications may be another one than who sends the messages.
func TestQuestionThatAMessageIsAnsweredWithIsToldOf(t *testing.T) {
	url, count := answers(t, http.StatusOK)
	front, i, wait := newFakeInstance(t, &askingTransport{})
	front.instance = i
	front.pushes.configure(config.Push{Allow: []string{url}})
	f := &forward{Front: front}
	say := func(settings *a2a.SendMessageConfig) {
		t.Helper()
		message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("more"))
		message.TaskID = "1"
		if _, err := f.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: message, Config: settings}); err != nil {
			t.Fatal(err)
		}
	}
	say(&a2a.SendMessageConfig{PushConfig: &a2a.PushConfig{URL: url}})
	say(nil)
	if _, err := f.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "1"}); err != nil { // which asks nothing anew
		t.Fatal(err)
	}
	wait()
	if n := count.Load(); n != 2 || !f.pushes.wanted("1") {
		t.Errorf("%d notifications of two questions, and more are wanted: %v", n, f.pushes.wanted("1"))
	}
}
