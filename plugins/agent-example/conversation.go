package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sashabaranov/go-openai"
)

// thinker answers by a model, which may call all the tools that were granted.
// Like the assistant it keeps nothing between tasks.
type thinker struct {
	model *model
	tools func(context.Context) (*mcp.ClientSession, error)
}

// Execute has the model answer. The events it yields are:
//   - a new task, submitted;
//   - working, and again before each tool call, naming the tool;
//   - the answer as an artifact, piece by piece;
//   - completed, or failed with the reason.
//
// When ctx is canceled the model and the tool are told so and the task ends as
// canceled.
func (t *thinker) Execute(ctx context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		c := &conversation{thinker: t, execCtx: execCtx, yield: yield}
		if execCtx.StoredTask == nil && !c.emit(a2a.NewSubmittedTask(execCtx, execCtx.Message)) {
			return
		}
		if !c.emit(a2a.NewStatusUpdateEvent(execCtx, a2a.TaskStateWorking, nil)) {
			return
		}
		limit := time.Duration(t.model.settings.Timeout)
		within, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the answer was not complete within %s", limit))
		defer cancel()
		if err := c.run(within); err != nil {
			c.emit(ended(ctx, execCtx, err))
			return
		}
		c.emit(a2a.NewStatusUpdateEvent(execCtx, a2a.TaskStateCompleted, nil))
	}
}

// conversation is what goes on in one execution.
type conversation struct {
	*thinker
	execCtx  *a2asrv.ExecutorContext
	yield    func(a2a.Event, error) bool
	left     bool // nobody takes events any more
	toolbox  *toolbox
	messages []openai.ChatCompletionMessage
	answer   a2a.ArtifactID // empty until there is some of it
}

// emit yields an event, unless nobody takes any.
func (c *conversation) emit(event a2a.Event) bool {
	c.left = c.left || !c.yield(event, nil)
	return !c.left
}

// run asks the model, and again with the results of the tools that it calls,
// until it calls none.
func (c *conversation) run(ctx context.Context) error {
	var err error
	if c.toolbox, err = openToolbox(ctx, c.tools); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	c.begin()
	tokens := c.model.settings.MaxTokens
	for range c.model.settings.MaxRounds {
		said, err := c.model.ask(ctx, c.messages, c.toolbox.offered, tokens, c.say)
		if err != nil {
			return err
		}
		tokens -= said.tokens
		switch {
		case said.finish == openai.FinishReasonLength:
			return fmt.Errorf("the model's answer was cut off: it may take %d tokens", c.model.settings.MaxTokens)
		case len(said.calls) == 0 && c.answer == "":
			return errors.New("the model gave no answer")
		case len(said.calls) == 0:
			return nil
		case tokens <= 0:
			return fmt.Errorf("the model has used up its %d tokens without an answer", c.model.settings.MaxTokens)
		}
		if err := c.call(ctx, said); err != nil {
			return err
		}
	}
	return fmt.Errorf("the model has called tools %d times, and given no answer", c.model.settings.MaxRounds)
}

// begin makes the conversation of what was said in the task.
func (c *conversation) begin() {
	c.add(openai.ChatMessageRoleSystem, c.model.settings.System)
	messages := []*a2a.Message{c.execCtx.Message}
	if c.execCtx.StoredTask != nil {
		messages = c.execCtx.StoredTask.History // the new message is its last
	}
	for _, message := range messages {
		role := openai.ChatMessageRoleUser
		if message.Role == a2a.MessageRoleAgent {
			role = openai.ChatMessageRoleAssistant
		}
		c.add(role, messageText(message))
	}
}

func (c *conversation) add(role, text string) {
	if text != "" {
		c.messages = append(c.messages, openai.ChatCompletionMessage{Role: role, Content: text})
	}
}

// say passes on a piece of the model's text.
func (c *conversation) say(text string) bool {
	if c.answer != "" {
		return c.emit(a2a.NewArtifactUpdateEvent(c.execCtx, c.answer, a2a.NewTextPart(text)))
	}
	first := a2a.NewArtifactEvent(c.execCtx, a2a.NewTextPart(text))
	first.Artifact.Name = "answer"
	c.answer = first.Artifact.ID
	return c.emit(first)
}

// call calls the tools that the model asks for, and tells it the results. What
// goes wrong with a tool is a result too: the model can do better.
func (c *conversation) call(ctx context.Context, said *turn) error {
	c.messages = append(c.messages, openai.ChatCompletionMessage{
		Role: openai.ChatMessageRoleAssistant, Content: said.text, ToolCalls: said.calls,
	})
	for _, call := range said.calls {
		if !c.emit(status(c.execCtx, a2a.TaskStateWorking, "Calling "+call.Function.Name+".")) {
			return context.Canceled
		}
		result := c.toolbox.call(ctx, call.Function)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.messages = append(c.messages, openai.ChatCompletionMessage{
			Role: openai.ChatMessageRoleTool, ToolCallID: call.ID, Content: result,
		})
	}
	return nil
}
