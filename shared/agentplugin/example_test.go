package agentplugin_test

import (
	"context"
	"iter"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/plughost/plughost/shared/agentplugin"
)

// echo answers with what it was told.
type echo struct{}

func (echo) Execute(_ context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewMessage(a2a.MessageRoleAgent, execCtx.Message.Parts...), nil)
	}
}

func (echo) Cancel(_ context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(execCtx, a2a.TaskStateCanceled, nil), nil)
	}
}

// The whole of a plugin: a card, an executor of the official SDK, and one line.
func Example() {
	agentplugin.Serve(&a2a.AgentCard{Name: "echo", Version: "1.0.0"}, echo{})
}
