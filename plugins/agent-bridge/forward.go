package main

import (
	"context"
	"iter"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// forward implements a2asrv.RequestHandler by passing requests on.
type forward struct{ *remote }

var _ a2asrv.RequestHandler = (*forward)(nil)

// params are the headers of a request that concern the agent.
func params(ctx context.Context) a2aclient.ServiceParams {
	params := make(a2aclient.ServiceParams)
	if call, ok := a2asrv.CallContextFrom(ctx); ok {
		if extensions, ok := call.ServiceParams().Get(a2a.SvcParamExtensions); ok {
			params[a2a.SvcParamExtensions] = extensions
		}
	}
	return params
}

func (f *forward) GetTask(ctx context.Context, r *a2a.GetTaskRequest) (*a2a.Task, error) {
	return f.transport.GetTask(ctx, params(ctx), r)
}

func (f *forward) ListTasks(ctx context.Context, r *a2a.ListTasksRequest) (*a2a.ListTasksResponse, error) {
	return f.transport.ListTasks(ctx, params(ctx), r)
}

func (f *forward) CancelTask(ctx context.Context, r *a2a.CancelTaskRequest) (*a2a.Task, error) {
	return f.transport.CancelTask(ctx, params(ctx), r)
}

func (f *forward) SendMessage(ctx context.Context, r *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return f.transport.SendMessage(ctx, params(ctx), r)
}

func (f *forward) SubscribeToTask(ctx context.Context, r *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return f.transport.SubscribeToTask(ctx, params(ctx), r)
}

func (f *forward) SendStreamingMessage(ctx context.Context, r *a2a.SendMessageRequest) iter.Seq2[a2a.Event, error] {
	return f.transport.SendStreamingMessage(ctx, params(ctx), r)
}

func (f *forward) GetExtendedAgentCard(ctx context.Context, r *a2a.GetExtendedAgentCardRequest) (*a2a.AgentCard, error) {
	return f.transport.GetExtendedAgentCard(ctx, params(ctx), r)
}

// The gateway sends push notifications by itself.

func (f *forward) GetTaskPushConfig(context.Context, *a2a.GetTaskPushConfigRequest) (*a2a.PushConfig, error) {
	return nil, a2a.ErrPushNotificationNotSupported
}

func (f *forward) ListTaskPushConfigs(context.Context, *a2a.ListTaskPushConfigRequest) (*a2a.ListTaskPushConfigResponse, error) {
	return nil, a2a.ErrPushNotificationNotSupported
}

func (f *forward) CreateTaskPushConfig(context.Context, *a2a.PushConfig) (*a2a.PushConfig, error) {
	return nil, a2a.ErrPushNotificationNotSupported
}

func (f *forward) DeleteTaskPushConfig(context.Context, *a2a.DeleteTaskPushConfigRequest) error {
	return a2a.ErrPushNotificationNotSupported
}
