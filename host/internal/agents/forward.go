package agents

import (
	"context"
	"iter"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

type transport = a2aclient.Transport

// forward implements a2asrv.RequestHandler by passing each request on to the
// agent that runs now.
type forward struct{ front *Front }

var _ a2asrv.RequestHandler = (*forward)(nil)

// hop returns where a request goes, and the headers that it takes along: of
// those that A2A defines the extensions. The version is the one that is spoken
// with the agent, and the others are between the client and the gateway.
func (f *forward) hop(ctx context.Context) (transport, a2aclient.ServiceParams, error) {
	params := a2aclient.ServiceParams{a2a.SvcParamVersion: {string(a2a.Version)}}
	if call, ok := a2asrv.CallContextFrom(ctx); ok {
		if extensions, ok := call.ServiceParams().Get(a2a.SvcParamExtensions); ok {
			params[a2a.SvcParamExtensions] = extensions
		}
	}
	t, err := f.front.current()
	return t, params, err
}

// pass makes one call that has one answer.
func pass[Q, A any](ctx context.Context, f *forward, request Q,
	call func(transport, context.Context, a2aclient.ServiceParams, Q) (A, error),
) (A, error) {
	t, params, err := f.hop(ctx)
	if err != nil {
		var none A
		return none, err
	}
	return call(t, ctx, params, request)
}

// stream makes one call that has many.
func stream[Q any](ctx context.Context, f *forward, request Q,
	call func(transport, context.Context, a2aclient.ServiceParams, Q) iter.Seq2[a2a.Event, error],
) iter.Seq2[a2a.Event, error] {
	t, params, err := f.hop(ctx)
	if err != nil {
		return func(yield func(a2a.Event, error) bool) { yield(nil, err) }
	}
	return call(t, ctx, params, request)
}

func (f *forward) GetTask(ctx context.Context, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	return pass(ctx, f, r, transport.GetTask)
}

func (f *forward) ListTasks(ctx context.Context, r *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return pass(ctx, f, r, transport.ListTasks)
}

func (f *forward) CancelTask(ctx context.Context, r *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return pass(ctx, f, r, transport.CancelTask)
}

func (f *forward) SendMessage(ctx context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return pass(ctx, f, r, transport.SendMessage)
}

func (f *forward) SubscribeToTask(ctx context.Context, r *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return stream(ctx, f, r, transport.SubscribeToTask)
}

func (f *forward) SendStreamingMessage(ctx context.Context, r *a2a.SendMessageRequest) iter.Seq2[a2a.Event, error] {
	return stream(ctx, f, r, transport.SendStreamingMessage)
}

func (f *forward) GetTaskPushConfig(ctx context.Context, r *a2a.GetTaskPushConfigRequest) (*a2a.PushConfig, error) {
	return pass(ctx, f, r, transport.GetTaskPushConfig)
}

func (f *forward) ListTaskPushConfigs(ctx context.Context, r *a2a.ListTaskPushConfigRequest) (*a2a.ListTaskPushConfigResponse, error) {
	configs, err := pass(ctx, f, r, transport.ListTaskPushConfigs)
	if err != nil {
		return nil, err
	}
	return &a2a.ListTaskPushConfigResponse{Configs: configs}, nil
}

func (f *forward) CreateTaskPushConfig(ctx context.Context, c *a2a.PushConfig) (*a2a.PushConfig, error) {
	return pass(ctx, f, c, transport.CreateTaskPushConfig)
}

func (f *forward) DeleteTaskPushConfig(ctx context.Context, r *a2a.DeleteTaskPushConfigRequest) error {
	_, err := pass(ctx, f, r, func(t transport, ctx context.Context, params a2aclient.ServiceParams, r *a2a.DeleteTaskPushConfigRequest) (struct{}, error) {
		return struct{}{}, t.DeleteTaskPushConfig(ctx, params, r)
	})
	return err
}

func (f *forward) GetExtendedAgentCard(ctx context.Context, r *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	card, err := pass(ctx, f, r, transport.GetExtendedAgentCard)
	if err != nil {
		return nil, err
	}
	return shown(card, urlOf(ctx)), nil
}
