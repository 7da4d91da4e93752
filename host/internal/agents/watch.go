package agents

import (
	"context"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/shared"
)

// takeOverTimeout bounds the first questions to an instance.
const takeOverTimeout = 10 * time.Second

// paramsOf are the headers of requests to an agent for the owner of a task. The
// version is the one that is spoken with agents.
func paramsOf(owner string) a2aclient.ServiceParams {
	params := a2aclient.ServiceParams{a2a.SvcParamVersion: {string(a2a.Version)}}
	if owner != "" {
		params[shared.CallerMetadata] = []string{owner}
	}
	return params
}

// ownerOf is whose the tasks are that a request is about: those of a token are
// its own. All who come without one, and who runs the host, share theirs.
func ownerOf(ctx context.Context) string {
	if name := caller.FromContext(ctx).Name; name != caller.Owner {
		return name
	}
	return ""
}

// takeOver learns of the tasks that an instance has in hand, but for those of
// tokens, which only who has them can list. A new one has none; one that
// outlived the host before may.
func (f *Front) takeOver(i *instance) {
	ctx, cancel := context.WithTimeout(i.life, takeOverTimeout)
	defer cancel()
	none := 0
	for _, state := range []a2a.TaskState{
		a2a.TaskStateSubmitted, a2a.TaskStateWorking, a2a.TaskStateInputRequired, a2a.TaskStateAuthRequired,
	} {
		list, err := i.ListTasks(ctx, paramsOf(""), &a2a.ListTasksRequest{Status: state, PageSize: 100, HistoryLength: &none})
		if err != nil {
			return // it need not be able to
		}
		for _, task := range list.Tasks {
			f.tasks.saw(i, "", task)
			if !rests(state) {
				f.watch(i, task.ID)
			}
		}
	}
}

// watch follows a task that goes on without a client that does: else its end
// would not be noticed, and it would count as failed when the process ends. Who
// wants to be notified of the task is.
func (f *Front) watch(i *instance, id a2a.TaskID) {
	owner, ok := f.tasks.watch(id)
	if !ok {
		return
	}
	f.start(func() {
		defer f.tasks.unwatch(id)
		for event, err := range i.SubscribeToTask(i.life, paramsOf(owner), &a2a.SubscribeToTaskRequest{ID: id}) {
			if err != nil {
				f.look(i, owner, id)
				return
			}
			f.tasks.saw(i, owner, event)
			f.pushes.notify(event)
		}
	})
}

// look sees what a task is now, which may have ended before it was followed.
func (f *Front) look(i *instance, owner string, id a2a.TaskID) {
	none := 0
	if task, err := i.GetTask(i.life, paramsOf(owner), &a2a.GetTaskRequest{ID: id, HistoryLength: &none}); err == nil {
		f.tasks.saw(i, owner, task)
		f.pushes.notify(task)
	}
}
