package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// findTimeout bounds the search for a tool. The host offers the agent its
	// tools as soon as it is ready.
	findTimeout = 5 * time.Second
	// callTimeout bounds the call of a tool, since nobody may be there to
	// cancel a task that hangs.
	callTimeout = 30 * time.Second
)

// assistant executes tasks. It keeps nothing between them: what was said in a
// task is in the task's history.
type assistant struct {
	// tools returns the session with the tools that the host grants.
	tools func(context.Context) (*mcp.ClientSession, error)
}

var _ a2asrv.AgentExecutor = (*assistant)(nil)

func newAssistant(tools func(context.Context) (*mcp.ClientSession, error)) *assistant {
	return &assistant{tools: tools}
}

// Execute answers a question. The events it yields are:
//   - a new task, submitted;
//   - input-required, if something is missing from the question; the client's
//     next message in the same task is taken for it;
//   - working, naming the tool that is called;
//   - an artifact with the answer;
//   - completed, or failed with the reason.
//
// When ctx is canceled the tool is told so and the task ends as canceled.
func (a *assistant) Execute(ctx context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if execCtx.StoredTask == nil && !yield(a2a.NewSubmittedTask(execCtx, execCtx.Message), nil) {
			return
		}
		todo := makePlan(userMessages(execCtx))
		switch {
		case todo.ask != "":
			yield(status(execCtx, a2a.TaskStateInputRequired, todo.ask), nil)
			return
		case todo.call == nil:
			complete(execCtx, help(), yield)
			return
		}

		session, tool, err := a.find(ctx, todo.call)
		if err != nil {
			yield(ended(ctx, execCtx, err), nil)
			return
		}
		if !yield(status(execCtx, a2a.TaskStateWorking, "Calling "+tool+"."), nil) {
			return
		}
		answer, err := todo.call.do(ctx, session, tool)
		if err != nil {
			yield(ended(ctx, execCtx, err), nil)
			return
		}
		complete(execCtx, answer, yield)
	}
}

// Cancel ends a task that is being executed, or waits for input, as canceled.
// The server then cancels the context of Execute, and with it the call of the
// tool.
func (a *assistant) Cancel(_ context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(execCtx, a2a.TaskStateCanceled, nil), nil)
	}
}

// find returns the session and the full name of the tool for a call. Which
// service has it is the operator's choice, so only the part of the name after
// the service's counts, and that the tool takes the arguments: a service for
// currencies may have a convert too.
func (a *assistant) find(ctx context.Context, c *call) (*mcp.ClientSession, string, error) {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	session, err := a.tools(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, "", fmt.Errorf("the host offered me no tools within %s. %w", findTimeout, &notGrantedError{tool: c.tool})
	case err != nil:
		return nil, "", fmt.Errorf("I cannot reach my tools: %w", err)
	}
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, "", fmt.Errorf("I cannot list my tools: %w", err)
		}
		if strings.HasSuffix(tool.Name, "__"+c.tool) && takes(tool, c.arguments) {
			return session, tool.Name, nil
		}
	}
	return nil, "", &notGrantedError{tool: c.tool}
}

// takes reports whether a tool's schema has all of the arguments.
func takes(tool *mcp.Tool, arguments map[string]any) bool {
	schema, _ := tool.InputSchema.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	for name := range arguments {
		if _, ok := properties[name]; !ok {
			return false
		}
	}
	return true
}

// notGrantedError says what the operator has to do.
type notGrantedError struct{ tool string }

func (e *notGrantedError) Error() string {
	return fmt.Sprintf("I need a tool named %[1]s, and none was granted to me. To grant it, write in my block of services.hcl: "+
		"tools { allow = [\"clock/%[1]s\"] }, where clock is the MCP service that has the tool.", e.tool)
}

// do calls the tool and returns the answer.
func (c *call) do(ctx context.Context, session *mcp.ClientSession, tool string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: c.arguments})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("%s did not answer within %s", tool, callTimeout)
	case err != nil:
		return "", fmt.Errorf("I cannot call %s: %w", tool, err)
	case result.IsError:
		return "", fmt.Errorf("%s says: %s", tool, textOf(result))
	}
	return c.answer(result), nil
}

// complete yields the answer and the end of the task.
func complete(info a2a.TaskInfoProvider, answer string, yield func(a2a.Event, error) bool) {
	artifact := a2a.NewArtifactEvent(info, a2a.NewTextPart(answer))
	artifact.Artifact.Name = "answer"
	artifact.LastChunk = true
	if yield(artifact, nil) {
		yield(a2a.NewStatusUpdateEvent(info, a2a.TaskStateCompleted, nil), nil)
	}
}

// ended is the event that ends a task which could not be completed.
func ended(ctx context.Context, info a2a.TaskInfoProvider, err error) a2a.Event {
	if ctx.Err() != nil {
		return a2a.NewStatusUpdateEvent(info, a2a.TaskStateCanceled, nil)
	}
	return status(info, a2a.TaskStateFailed, err.Error())
}

// status is a task's new state with a message of the agent.
func status(info a2a.TaskInfoProvider, state a2a.TaskState, text string) a2a.Event {
	message := a2a.NewMessageForTask(a2a.MessageRoleAgent, info, a2a.NewTextPart(text))
	return a2a.NewStatusUpdateEvent(info, state, message)
}

// userMessages returns the texts that the user sent in the task, the oldest
// first.
func userMessages(execCtx *a2asrv.ExecutorContext) []string {
	messages := []*a2a.Message{execCtx.Message}
	if execCtx.StoredTask != nil {
		messages = execCtx.StoredTask.History // the new message is its last
	}
	var texts []string
	for _, message := range messages {
		if message.Role != a2a.MessageRoleAgent {
			texts = append(texts, messageText(message))
		}
	}
	return texts
}

func messageText(message *a2a.Message) string {
	var texts []string
	for _, part := range message.Parts {
		texts = append(texts, part.Text())
	}
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), " ")
}
