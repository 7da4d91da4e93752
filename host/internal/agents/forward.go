package agents

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/plughost/plughost/shared/calldepth"
)

// maxStreams bounds how many streams of an agent are open at once.
const maxStreams = 100

type transport = a2aclient.Transport

// forward implements a2asrv.RequestHandler by passing each request on to the
// instance that runs now, and takes note of the tasks in the answers.
type forward struct{ *Front }

var _ a2asrv.RequestHandler = (*forward)(nil)

// passedHeaders go on to the agent: of those that A2A defines the extensions,
// and those that say which request it is and which trace it belongs to. The
// others are between the client and the gateway.
var passedHeaders = [...]string{a2a.SvcParamExtensions, "x-request-id", "traceparent", "tracestate", "baggage"}

// requestParams are the headers that a request takes along, and whose it is.
func requestParams(ctx context.Context) a2aclient.ServiceParams {
	params := paramsOf(ownerOf(ctx))
	call, ok := a2asrv.CallContextFrom(ctx)
	if !ok {
		return params
	}
	for _, name := range passedHeaders {
		if values, ok := call.ServiceParams().Get(name); ok {
			params[name] = values
		}
	}
	return params
}

// pass makes one call that has one answer.
func pass[Q, A any](ctx context.Context, f *forward, request Q,
	call func(transport, context.Context, a2aclient.ServiceParams, Q) (A, error),
) (A, error) {
	i, err := f.current()
	if err != nil {
		var none A
		return none, err
	}
	answer, err := call(i, ctx, requestParams(ctx), request)
	if isLost(err) {
		i.await(ctx)
	}
	if event, ok := any(answer).(a2a.Event); ok && err == nil {
		f.noted(i, ownerOf(ctx), event)
	}
	return answer, err
}

func isLost(err error) bool {
	var lost *lostError
	return errors.As(err, &lost)
}

// saw takes note of what an instance said of a task. Whoever wants to be notified
// of it hears of its end by who watches it, and of one that nobody watched now.
func (f *forward) saw(i *instance, owner string, event a2a.Event) {
	id := event.TaskInfo().TaskID
	watched := f.tasks.watched(id)
	f.tasks.saw(i, owner, event)
	if !watched && stateOf(event).Terminal() {
		f.pushes.notify(event)
	}
}

// noted takes note of an answer that is a task, or is about one.
func (f *forward) noted(i *instance, owner string, event a2a.Event) {
	f.saw(i, owner, event)
	if task, ok := event.(*a2a.Task); ok && !rests(task.Status.State) {
		f.watch(i, task.ID)
	}
}

// stream makes one call that has many answers. If the instance ends meanwhile,
// the last of them is that the task has failed.
func stream[Q any](ctx context.Context, f *forward, request Q,
	call func(transport, context.Context, a2aclient.ServiceParams, Q) iter.Seq2[a2a.Event, error],
) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		end, err := f.openStream()
		if err != nil {
			yield(nil, err)
			return
		}
		defer end()
		i, err := f.current()
		if err != nil {
			yield(nil, err)
			return
		}
		var last a2a.Event
		for event, err := range call(i, ctx, requestParams(ctx), request) {
			if err != nil {
				yield(f.broken(ctx, i, last, err))
				return
			}
			f.saw(i, ownerOf(ctx), event)
			if task := event.TaskInfo().TaskID; f.pushes.wanted(task) && !rests(stateOf(event)) {
				f.watch(i, task)
			}
			last = event
			if !yield(event, nil) {
				break
			}
		}
		f.left(i, last)
	}
}

// openStream takes one of the agent's streams, until end is called.
func (f *forward) openStream() (end func(), err error) {
	select {
	case f.streams <- struct{}{}:
		return func() { <-f.streams }, nil
	default:
		return nil, a2a.NewError(a2a.ErrServerError,
			fmt.Sprintf("agent %s has %d streams open, and no more are served: try again later", f.name, maxStreams))
	}
}

// broken is the end of a stream that broke off after its last event.
func (f *forward) broken(ctx context.Context, i *instance, last a2a.Event, err error) (a2a.Event, error) {
	if last == nil || !isLost(err) {
		f.left(i, last)
		return nil, err
	}
	i.await(ctx)
	task := f.tasks.end(ownerOf(ctx), last.TaskInfo().TaskID)
	if task == nil {
		return nil, err
	}
	return ending(task), nil
}

// left has a task watched whose client left its stream.
func (f *forward) left(i *instance, last a2a.Event) {
	if last != nil && !rests(stateOf(last)) {
		f.watch(i, last.TaskInfo().TaskID)
	}
}

func (f *forward) GetTask(ctx context.Context, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	task, err := pass(ctx, f, r, transport.GetTask)
	if err != nil {
		if end := f.tasks.end(ownerOf(ctx), r.ID); end != nil {
			return end, nil
		}
	}
	return task, err
}

func (f *forward) ListTasks(ctx context.Context, r *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return pass(ctx, f, r, transport.ListTasks)
}

func (f *forward) CancelTask(ctx context.Context, r *a2a.CancelTaskRequest) (*a2a.Task, error) {
	task, err := pass(ctx, f, r, transport.CancelTask)
	if err != nil {
		if end := f.tasks.end(ownerOf(ctx), r.ID); end != nil {
			return nil, a2a.NewError(a2a.ErrTaskNotCancelable, "the task has failed: "+reasonOf(end))
		}
	}
	return task, err
}

func (f *forward) SendMessage(ctx context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	if err := checkDepth(r); err != nil {
		return nil, err
	}
	r, push, err := f.withoutPush(r)
	if err != nil {
		return nil, err
	}
	result, err := pass(ctx, f, r, transport.SendMessage)
	if err == nil {
		f.rested(result)
		f.pushFor(ctx, result, push)
		return result, nil
	}
	end := f.taskOf(ctx, r)
	switch {
	case end == nil:
		return nil, err
	case isLost(err):
		return end, nil
	default:
		return nil, overError(end)
	}
}

// rested notifies, of a task that waits for its client again, those who want to be.
// Nobody watches one that a message is answered with.
func (f *forward) rested(result a2a.Event) {
	if state := stateOf(result); rests(state) && !state.Terminal() && !f.tasks.watched(result.TaskInfo().TaskID) {
		f.pushes.notify(result)
	}
}

// checkDepth refuses a message in too long a chain of agents.
func checkDepth(r *a2a.SendMessageRequest) error {
	var ofMessage map[string]any
	if r.Message != nil {
		ofMessage = r.Message.Metadata
	}
	if _, err := calldepth.Of(r.Metadata, ofMessage); err != nil {
		return a2a.NewError(a2a.ErrInvalidParams, err.Error())
	}
	return nil
}

// taskOf is the task that a message is for, if that failed with its instance.
func (f *forward) taskOf(ctx context.Context, r *a2a.SendMessageRequest) *a2a.Task {
	if r.Message == nil {
		return nil
	}
	return f.tasks.end(ownerOf(ctx), r.Message.TaskID)
}

func overError(end *a2a.Task) error {
	return a2a.NewError(a2a.ErrUnsupportedOperation, "the task has failed: "+reasonOf(end))
}

// reasonOf is why a task failed with its instance.
func reasonOf(end *a2a.Task) string { return end.Status.Message.Parts[0].Text() }

func (f *forward) SubscribeToTask(ctx context.Context, r *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return orEnd(stream(ctx, f, r, transport.SubscribeToTask), func(err error) (a2a.Event, error) {
		if end := f.tasks.end(ownerOf(ctx), r.ID); end != nil {
			return end, nil
		}
		return nil, err
	})
}

func (f *forward) SendStreamingMessage(ctx context.Context, r *a2a.SendMessageRequest) iter.Seq2[a2a.Event, error] {
	failed := func(err error) iter.Seq2[a2a.Event, error] {
		return func(yield func(a2a.Event, error) bool) { yield(nil, err) }
	}
	if err := checkDepth(r); err != nil {
		return failed(err)
	}
	r, push, err := f.withoutPush(r)
	if err != nil {
		return failed(err)
	}
	events := f.pushing(ctx, push, stream(ctx, f, r, transport.SendStreamingMessage))
	return orEnd(events, func(err error) (a2a.Event, error) {
		if end := f.taskOf(ctx, r); end != nil {
			return nil, overError(end)
		}
		return nil, err
	})
}

// orEnd is a stream that, if it cannot begin, tells what end makes of the error.
func orEnd(events iter.Seq2[a2a.Event, error], end func(error) (a2a.Event, error)) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		begun := false
		for event, err := range events {
			if err != nil && !begun {
				yield(end(err))
				return
			}
			begun = true
			if !yield(event, err) {
				return
			}
		}
	}
}

func (f *forward) GetExtendedAgentCard(ctx context.Context, r *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	card, err := pass(ctx, f, r, transport.GetExtendedAgentCard)
	if err != nil {
		return nil, err
	}
	return f.shown(ctx, card, urlOf(ctx)), nil
}
