package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type nowArguments struct {
	Zone string `json:"zone"`
}

type convertArguments struct {
	Time string `json:"time"`
	From string `json:"from"`
	To   string `json:"to"`
}

type daysArguments struct {
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// addTool adds a tool that gives a fixed structured result.
func addTool[In any](server *mcp.Server, name string, result map[string]any) {
	mcp.AddTool(server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, In) (*mcp.CallToolResult, map[string]any, error) {
		return nil, result, nil
	})
}

// addClock adds the tools of a clock as the host names those of a service.
func addClock(server *mcp.Server, service string) {
	addTool[nowArguments](server, service+"__now", map[string]any{"time": "2026-03-01T21:05:00+09:00"})
	addTool[convertArguments](server, service+"__convert", map[string]any{
		"from": map[string]any{"time": "2026-03-01T20:30:00-05:00"},
		"to":   map[string]any{"time": "2026-03-02T01:30:00Z"},
		"note": "A note.",
	})
	addTool[daysArguments](server, service+"__days_between", map[string]any{"summary": "2026-12-24 is 298 days after 2026-03-01"})
}

// toolsOf returns what the executor gets its tools by: a session, in memory,
// with a server to which the given function adds tools.
func toolsOf(t *testing.T, add func(*mcp.Server)) func(context.Context) (*mcp.ClientSession, error) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "tools", Version: "1"}, nil)
	add(server)
	serverEnd, clientEnd := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), serverEnd, nil); err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), clientEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return func(context.Context) (*mcp.ClientSession, error) { return session, nil }
}

func userMessage(text string) *a2a.Message {
	return a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
}

// ask has the assistant execute a new task, and returns its events as text.
func ask(ctx context.Context, t *testing.T, a *assistant, question string) []string {
	t.Helper()
	message := userMessage(question)
	return describe(t, a.Execute(ctx, &a2asrv.ExecutorContext{
		Message:   message,
		TaskID:    a2a.NewTaskID(),
		ContextID: a2a.NewContextID(),
	}))
}

// describe writes events as text, one a line: the state and what was said.
func describe(t *testing.T, events iter.Seq2[a2a.Event, error]) []string {
	t.Helper()
	var lines []string
	for event, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, describeEvent(event))
	}
	return lines
}

func describeEvent(event a2a.Event) string {
	switch event := event.(type) {
	case *a2a.Task:
		return describeStatus(event.Status)
	case *a2a.TaskStatusUpdateEvent:
		return describeStatus(event.Status)
	case *a2a.TaskArtifactUpdateEvent:
		return "artifact: " + event.Artifact.Parts[0].Text()
	}
	return fmt.Sprintf("%T", event)
}

func describeStatus(status a2a.TaskStatus) string {
	state := strings.ToLower(strings.TrimPrefix(status.State.String(), "TASK_STATE_"))
	if status.Message == nil {
		return state
	}
	return state + ": " + messageText(status.Message)
}

// expect compares events with the beginnings of what they should be.
func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("events:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestExecuteAnswersByCallingTools(t *testing.T) {
	a := newAssistant(toolsOf(t, func(server *mcp.Server) {
		addClock(server, "timekeeper")
		// A tool of the same name that takes something else.
		addTool[struct {
			Amount   float64 `json:"amount"`
			Currency string  `json:"currency"`
		}](server, "bank__convert", nil)
	}))
	tests := []struct {
		question, tool, answer string
	}{
		{
			"What time is it in tokyo?", "timekeeper__now",
			"It is 21:05 in Tokyo on Sunday, 1 March 2026 (UTC+09:00).",
		},
		{
			"Convert 20:30 from New York to London", "timekeeper__convert",
			"20:30 in New York on Sunday, 1 March 2026 is 01:30 in London on Monday, 2 March 2026. A note.",
		},
		{
			"Days until 2026-12-24", "timekeeper__days_between",
			"2026-12-24 is 298 days after 2026-03-01.",
		},
	}
	for _, tt := range tests {
		t.Run(tt.question, func(t *testing.T) {
			expect(
				t, ask(t.Context(), t, a, tt.question),
				"submitted", "working: Calling "+tt.tool+".", "artifact: "+tt.answer, "completed",
			)
		})
	}
}

func TestExecuteGivesUnexpectedResultsAsTheyAre(t *testing.T) {
	a := newAssistant(toolsOf(t, func(server *mcp.Server) {
		addTool[nowArguments](server, "sundial__now", map[string]any{"shadow": "long"})
	}))
	expect(
		t, ask(t.Context(), t, a, "Time in Tokyo"),
		"submitted", "working: Calling sundial__now.", `artifact: {"shadow":"long"}`, "completed",
	)
}

func TestExecuteNeedsNoToolsToHelp(t *testing.T) {
	a := newAssistant(func(context.Context) (*mcp.ClientSession, error) {
		t.Error("the assistant asked for tools")
		return nil, errors.New("no tools")
	})
	expect(
		t, ask(t.Context(), t, a, "Hello!"),
		"submitted", "artifact: I did not understand that. I answer questions about time, such as:\n- What time", "completed",
	)
	expect(
		t, ask(t.Context(), t, a, "What time is it?"),
		"submitted", "input_required: In which city or time zone?",
	)
}

func TestExecuteFailsWithTheReason(t *testing.T) {
	tests := []struct {
		name  string
		tools func(context.Context) (*mcp.ClientSession, error)
		want  []string
	}{
		{
			"that the tool gives",
			toolsOf(t, func(server *mcp.Server) {
				mcp.AddTool(server, &mcp.Tool{Name: "clock__now"}, func(context.Context, *mcp.CallToolRequest, nowArguments) (*mcp.CallToolResult, any, error) {
					return nil, nil, errors.New("the battery is empty")
				})
			}),
			[]string{"submitted", "working: Calling clock__now.", "failed: clock__now says: the battery is empty"},
		},
		{
			"that nothing was granted",
			toolsOf(t, func(server *mcp.Server) { addTool[nowArguments](server, "clock__then", nil) }),
			[]string{"submitted", `failed: I need a tool named now, and none was granted to me. To grant it, write in my block of services.hcl: tools { allow = ["clock/now"] }`},
		},
		{
			"that the only tool of the name takes something else",
			toolsOf(t, func(server *mcp.Server) { addTool[convertArguments](server, "ticker__now", nil) }),
			[]string{"submitted", "failed: I need a tool named now"},
		},
		{
			"that there is no host",
			func(context.Context) (*mcp.ClientSession, error) { return nil, errors.New("no host") },
			[]string{"submitted", "failed: I cannot reach my tools: no host"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, ask(t.Context(), t, newAssistant(tt.tools), "Time in Tokyo"), tt.want...)
		})
	}
}

// waitForTools is what agentplugin.Tools does while the host offers none.
func waitForTools(ctx context.Context) (*mcp.ClientSession, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestExecuteDoesNotWaitForToolsForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		expect(
			t, ask(t.Context(), t, newAssistant(waitForTools), "Time in Tokyo"),
			"submitted", "failed: the host offered me no tools within 5s. I need a tool named now",
		)
		if waited := time.Since(start); waited != findTimeout {
			t.Errorf("waited %s, want %s", waited, findTimeout)
		}
	})
}

func TestExecuteEndsAsCanceledWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	a := newAssistant(func(ctx context.Context) (*mcp.ClientSession, error) {
		cancel()
		return waitForTools(ctx)
	})
	expect(t, ask(ctx, t, a, "Time in Tokyo"), "submitted", "canceled")
}

func TestExecuteStopsWhenNobodyListens(t *testing.T) {
	a := newAssistant(func(context.Context) (*mcp.ClientSession, error) {
		t.Error("the assistant went on")
		return nil, errors.New("no tools")
	})
	execCtx := &a2asrv.ExecutorContext{Message: userMessage("Time in Tokyo"), TaskID: a2a.NewTaskID()}
	for _, err := range a.Execute(t.Context(), execCtx) {
		if err != nil {
			t.Error(err)
		}
		break
	}
}

func TestCancelEndsATaskThatNeedsInput(t *testing.T) {
	task := &a2a.Task{ID: a2a.NewTaskID(), Status: a2a.TaskStatus{State: a2a.TaskStateInputRequired}}
	execCtx := &a2asrv.ExecutorContext{StoredTask: task, TaskID: task.ID}
	expect(t, describe(t, newAssistant(waitForTools).Cancel(t.Context(), execCtx)), "canceled")
}

// The tests below run the assistant in the A2A server that hosts it.

func TestServerStreamsTheStatesOfATask(t *testing.T) {
	server := a2asrv.NewHandler(newAssistant(toolsOf(t, func(server *mcp.Server) { addClock(server, "clock") })))
	events := server.SendStreamingMessage(t.Context(), &a2a.SendMessageRequest{Message: userMessage("Time in Tokyo")})
	expect(t, describe(t, events), "submitted", "working: Calling clock__now.", "artifact: It is 21:05 in Tokyo", "completed")
}

func TestServerContinuesATaskThatNeedsInput(t *testing.T) {
	server := a2asrv.NewHandler(newAssistant(toolsOf(t, func(server *mcp.Server) { addClock(server, "clock") })))
	result, err := server.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: userMessage("What time is it?")})
	if err != nil {
		t.Fatal(err)
	}
	task, ok := result.(*a2a.Task)
	if !ok || task.Status.State != a2a.TaskStateInputRequired {
		t.Fatalf("got %+v, want a task that needs input", result)
	}

	place := a2a.NewMessageForTask(a2a.MessageRoleUser, task, a2a.NewTextPart("Tokyo"))
	result, err = server.SendMessage(t.Context(), &a2a.SendMessageRequest{Message: place})
	if err != nil {
		t.Fatal(err)
	}
	task, ok = result.(*a2a.Task)
	if !ok || task.Status.State != a2a.TaskStateCompleted || len(task.Artifacts) != 1 {
		t.Fatalf("got %+v, want a completed task with one artifact", result)
	}
	if got, want := task.Artifacts[0].Parts[0].Text(), "It is 21:05 in Tokyo"; !strings.HasPrefix(got, want) {
		t.Errorf("answer %q, want %q", got, want)
	}
}

func TestServerCancelsATaskAndItsCall(t *testing.T) {
	called, canceled := make(chan struct{}), make(chan struct{})
	server := a2asrv.NewHandler(newAssistant(toolsOf(t, func(server *mcp.Server) {
		mcp.AddTool(server, &mcp.Tool{Name: "clock__now"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ nowArguments) (*mcp.CallToolResult, any, error) {
			close(called)
			<-ctx.Done()
			close(canceled)
			return nil, nil, ctx.Err()
		})
	})))

	result, err := server.SendMessage(t.Context(), &a2a.SendMessageRequest{
		Message: userMessage("Time in Tokyo"),
		Config:  &a2a.SendMessageConfig{ReturnImmediately: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-called
	task, err := server.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: result.TaskInfo().TaskID})
	if err != nil {
		t.Fatal(err)
	}
	if task.Status.State != a2a.TaskStateCanceled {
		t.Errorf("state %s, want canceled", task.Status.State)
	}
	<-canceled
}
