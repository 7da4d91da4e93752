// Command agent-example is a plughost plugin: an A2A agent that answers by a
// model which calls MCP tools through the host or, if none is configured,
// answers questions about time by itself. It is meant to be read and copied.
//
// main.go serves, card.go says what the agent can do, and settings.go what can
// be configured. With a model, conversation.go goes back and forth between it
// and the tools, model.go asks it, and toolbox.go calls the tools. Without one,
// planner.go understands questions without calling anything, executor.go does
// what was planned, and answer.go puts the tools' results in words.
package main

import (
	"context"
	"iter"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/plughost/plughost/shared/agentplugin"
)

func main() {
	settings := &settings{}
	agentplugin.Serve(card(), newAgent(settings), agentplugin.WithConfig(settings))
}

// agent answers by the model, if one is configured, and else by the assistant.
type agent struct {
	*assistant
	thinker func() *thinker // nil without a model; settings count from the first call
}

func newAgent(settings *settings) *agent {
	a := &agent{assistant: newAssistant(agentplugin.Tools)}
	a.thinker = sync.OnceValue(func() *thinker {
		if settings.Model == nil {
			return nil
		}
		return &thinker{model: newModel(settings.Model), tools: agentplugin.Tools}
	})
	return a
}

func (a *agent) Execute(ctx context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	if thinker := a.thinker(); thinker != nil {
		return thinker.Execute(ctx, execCtx)
	}
	return a.assistant.Execute(ctx, execCtx)
}
