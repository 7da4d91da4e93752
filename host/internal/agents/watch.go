package agents

import (
	"context"
	"errors"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/shared"
)

const (
	// takeOverTimeout bounds the first questions to an instance.
	takeOverTimeout = 10 * time.Second
	// minWatchDelay and maxWatchDelay bound the wait until a task is followed
	// again whose stream broke off.
	minWatchDelay = time.Second
	maxWatchDelay = 30 * time.Second
)

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
		w := &watcher{f, i, owner, id, a2a.TaskStateUnspecified}
		for delay := minWatchDelay; !w.listen() && !w.look(); delay = min(2*delay, maxWatchDelay) {
			select {
			case <-time.After(delay):
			case <-i.life.Done():
				return
			}
		}
	})
}

// watcher is who follows a task. Its streams may break off before the task is
// over, as those of a remote agent do, or there may be none.
type watcher struct {
	*Front
	instance *instance
	owner    string
	id       a2a.TaskID
	state    a2a.TaskState // as it was last seen
}

// listen follows the task as long as its stream lasts, and reports whether there
// is nothing to follow then.
func (w *watcher) listen() (over bool) {
	i := w.instance
	for event, err := range i.SubscribeToTask(i.life, paramsOf(w.owner), &a2a.SubscribeToTaskRequest{ID: w.id}) {
		if err != nil {
			return false
		}
		w.saw(event)
	}
	return rests(w.state)
}

// look sees what the task is now, which may have ended while nobody listened,
// and reports whether there is nothing to follow any more.
func (w *watcher) look() (over bool) {
	none, i := 0, w.instance
	task, err := i.GetTask(i.life, paramsOf(w.owner), &a2a.GetTaskRequest{ID: w.id, HistoryLength: &none})
	if err == nil && task.Status.State != w.state {
		w.saw(task)
	}
	return rests(w.state) || errors.Is(err, a2a.ErrTaskNotFound)
}

func (w *watcher) saw(event a2a.Event) {
	if state := stateOf(event); state != a2a.TaskStateUnspecified {
		w.state = state
	}
	w.tasks.saw(w.instance, w.owner, event)
	w.pushes.notify(event)
}
