package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/supervise"
)

// busyAgent has the agent echo be ready, and end no task by itself.
func (f *front) busyAgent() (*fakeAgent, *echoAgent) {
	f.t.Helper()
	echo := &echoAgent{begun: make(chan struct{}, 1), end: make(chan struct{})}
	agent := newFakeAgent(f.t, card(), echo)
	f.readyAgent("echo", agent)
	return agent, echo
}

const processEnded = "the process of agent echo ended before this task did (exit status 0)"

func expectFailed(t *testing.T, what string, status a2a.TaskStatus) {
	t.Helper()
	if status.State != a2a.TaskStateFailed || status.Message == nil || status.Message.Parts[0].Text() != processEnded {
		t.Errorf("%s: status %+v", what, status)
	}
}

func TestTaskFailsWithItsAgent(t *testing.T) {
	for _, b := range bindings {
		t.Run(b.String(), func(t *testing.T) {
			f := newFront(t, agentConfig("echo"))
			agent, _ := f.busyAgent()
			client := f.dialBy("echo", b.protocol, b.version)
			var last a2a.Event
			for event, err := range client.SendStreamingMessage(t.Context(), say("hello")) {
				if err != nil {
					t.Fatal(err)
				}
				if update, ok := event.(*a2a.TaskStatusUpdateEvent); ok && update.Status.State == a2a.TaskStateWorking {
					agent.die()
				}
				last = event
			}
			update, ok := last.(*a2a.TaskStatusUpdateEvent)
			if !ok {
				t.Fatalf("the stream ends with %+v", last)
			}
			expectFailed(t, "the end of the stream", update.Status)

			f.enterAgent("echo", supervise.Backoff, "")
			expectOver(t, "while it is not running", client, update.TaskID)
			f.readyAgent("echo", newFakeAgent(t, card(), &echoAgent{}))
			expectOver(t, "when it runs again", client, update.TaskID)
		})
	}
}

// expectOver wants every request about a task to be answered with its end.
func expectOver(t *testing.T, when string, client *a2aclient.Client, id a2a.TaskID) {
	t.Helper()
	task, err := client.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	expectFailed(t, when, task.Status)
	if _, err := client.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: id}); err == nil {
		t.Errorf("%s it was canceled", when)
	}
	for event, err := range client.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: id}) {
		task, ok := event.(*a2a.Task)
		if !ok || err != nil {
			t.Fatalf("%s its stream has %+v, error %v", when, event, err)
		}
		expectFailed(t, when, task.Status)
	}
	more := say("more")
	more.Message.TaskID = id
	if _, err := client.SendMessage(t.Context(), more); err == nil {
		t.Errorf("%s it took a message", when)
	}
	for _, err := range client.SendStreamingMessage(t.Context(), more) {
		if err == nil {
			t.Errorf("%s it took a message, and streams", when)
		}
	}
}

func TestTaskThatNobodyFollowsFailsWithItsAgent(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	agent, _ := f.busyAgent()
	request := say("hello")
	request.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	client := f.dial("echo")
	result, err := client.SendMessage(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	id := result.TaskInfo().TaskID
	agent.die()
	f.enterAgent("echo", supervise.Backoff, "")
	eventually(t, "the task has failed", func() bool {
		task, err := client.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id})
		return err == nil && task.Status.State == a2a.TaskStateFailed
	})
	if _, err := client.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: id}); err == nil || !strings.Contains(err.Error(), processEnded) {
		t.Errorf("error %v", err)
	}
}

// A health check that fails once is no end of the agent.
func TestAgentThatWasUnhealthyForAWhileGoesOn(t *testing.T) {
	f := newFront(t, mcpConfig("a"), agentConfig("echo", "a/*"))
	begun, end := make(chan struct{}), make(chan struct{})
	server := newServer()
	addTool(server, "slow", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(begun)
		<-end
		return text("done"), nil
	})
	f.ready("a", newPlugin(t, server))
	agent, _ := f.busyAgent()
	session := <-agent.tools
	result := make(chan error, 1)
	go func() {
		_, err := call(t.Context(), session, "a__slow")
		result <- err
	}()
	<-begun
	for range 3 {
		f.enterAgent("echo", supervise.Unhealthy, "a health check failed")
		f.readyAgent("echo", agent)
	}
	close(end)
	if err := <-result; err != nil {
		t.Errorf("a call that was in flight: %v", err)
	}
	if more := len(agent.tools); more > 0 {
		t.Errorf("the agent got %d more sessions", more)
	}
}

func TestStreamThatComesTooLateIsNotTheAgents(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	agent := newFakeAgent(t, card(), &echoAgent{})
	f.readyAgent("echo", agent)
	<-agent.tools
	a := f.agent("echo")
	a.mu.Lock()
	before := a.tools
	a.mu.Unlock()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := a.attach(ended, nil); got != nil || a.tools != before {
		t.Error("what is granted would not reach the agent")
	}
}
