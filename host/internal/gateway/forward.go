package gateway

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
type forward struct{ agent *agent }

var _ a2asrv.RequestHandler = (*forward)(nil)

// serviceParams are the request's headers that A2A defines, for the next hop.
// The others are between the client and the gateway.
func serviceParams(ctx context.Context) a2aclient.ServiceParams {
	call, ok := a2asrv.CallContextFrom(ctx)
	if !ok {
		return nil
	}
	params := make(a2aclient.ServiceParams)
	for _, name := range []string{a2a.SvcParamVersion, a2a.SvcParamExtensions} {
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
	t, err := f.agent.current()
	if err != nil {
		var none A
		return none, err
	}
	return call(t, ctx, serviceParams(ctx), request)
}

// stream makes one call that has many.
func stream[Q any](ctx context.Context, f *forward, request Q,
	call func(transport, context.Context, a2aclient.ServiceParams, Q) iter.Seq2[a2a.Event, error],
) iter.Seq2[a2a.Event, error] {
	t, err := f.agent.current()
	if err != nil {
		return func(yield func(a2a.Event, error) bool) { yield(nil, err) }
	}
	return call(t, ctx, serviceParams(ctx), request)
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
	if url, ok := ctx.Value(urlKey{}).(string); ok {
		readdress(card, url)
	}
	return card, nil
}
