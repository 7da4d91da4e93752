package agents

import (
	"context"
	"iter"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// withoutPush takes the push notification configuration out of a message, if it
// has one: the agent does not send them.
func (f *forward) withoutPush(r *a2a.SendMessageRequest) (*a2a.SendMessageRequest, *a2a.PushConfig, error) {
	if r.Config == nil || r.Config.PushConfig == nil {
		return r, nil, nil
	}
	push := r.Config.PushConfig
	if err := f.pushes.check(push); err != nil {
		return nil, nil, err
	}
	without, settings := *r, *r.Config
	settings.PushConfig = nil
	without.Config = &settings
	return &without, push, nil
}

// pushing is a stream of a message that had a push notification configuration,
// or nil: it is taken as soon as the task is known.
func (f *forward) pushing(ctx context.Context, push *a2a.PushConfig, events iter.Seq2[a2a.Event, error]) iter.Seq2[a2a.Event, error] {
	if push == nil {
		return events
	}
	return func(yield func(a2a.Event, error) bool) {
		taken := false
		for event, err := range events {
			if err == nil && !taken {
				taken = f.pushFor(ctx, event, push)
			}
			if !yield(event, err) {
				return
			}
		}
	}
}

// pushFor takes a push notification configuration, if it is not nil, for the
// task that an event is about, and reports whether it is about one.
func (f *forward) pushFor(ctx context.Context, event a2a.Event, push *a2a.PushConfig) bool {
	if _, isMessage := event.(*a2a.Message); push == nil || isMessage {
		return false
	}
	if _, err := f.addPush(ctx, event.TaskInfo().TaskID, push); err != nil {
		f.pushes.log.Warn("a push notification configuration could not be taken", "task", event.TaskInfo().TaskID, "reason", err)
	}
	return true
}

// addPush takes a push notification configuration for a task, and notifies of
// what the task is: it may end before it is followed.
func (f *forward) addPush(ctx context.Context, id a2a.TaskID, push *a2a.PushConfig) (*a2a.PushConfig, error) {
	if err := f.pushes.check(push); err != nil {
		return nil, err
	}
	if err := f.mayPush(ctx, id); err != nil {
		return nil, err
	}
	taken, err := f.pushes.add(id, push)
	if err != nil {
		return nil, err
	}
	none := 0
	task, err := f.GetTask(ctx, &a2a.GetTaskRequest{ID: id, HistoryLength: &none})
	if err != nil {
		f.pushes.remove(id, taken.ID)
		return nil, err
	}
	f.pushes.begin(taken, task)
	return taken, nil
}

func (f *forward) CreateTaskPushConfig(ctx context.Context, c *a2a.PushConfig) (*a2a.PushConfig, error) {
	return f.addPush(ctx, c.TaskID, c)
}

// mayPush is why a request about the push notifications of a task is refused, if
// it is: who may not see the task has nothing to do with them.
func (f *forward) mayPush(ctx context.Context, id a2a.TaskID) error {
	if !f.pushes.supported() {
		return a2a.ErrPushNotificationNotSupported
	}
	none := 0
	_, err := f.GetTask(ctx, &a2a.GetTaskRequest{ID: id, HistoryLength: &none})
	return err
}

func (f *forward) GetTaskPushConfig(ctx context.Context, r *a2a.GetTaskPushConfigRequest) (*a2a.PushConfig, error) {
	if err := f.mayPush(ctx, r.TaskID); err != nil {
		return nil, err
	}
	for _, c := range f.pushes.list(r.TaskID) {
		if c.ID == r.ID {
			return c, nil
		}
	}
	return nil, a2a.NewError(a2a.ErrTaskNotFound, "there is no such push notification configuration")
}

func (f *forward) ListTaskPushConfigs(ctx context.Context, r *a2a.ListTaskPushConfigRequest) (*a2a.ListTaskPushConfigResponse, error) {
	if err := f.mayPush(ctx, r.TaskID); err != nil {
		return nil, err
	}
	return &a2a.ListTaskPushConfigResponse{Configs: f.pushes.list(r.TaskID)}, nil
}

func (f *forward) DeleteTaskPushConfig(ctx context.Context, r *a2a.DeleteTaskPushConfigRequest) error {
	if err := f.mayPush(ctx, r.TaskID); err != nil {
		return err
	}
	f.pushes.remove(r.TaskID, r.ID)
	return nil
}
