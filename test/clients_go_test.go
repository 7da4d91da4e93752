//go:build unix

package test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// connectMCP opens a session with the official Go client.
func connectMCP(t *testing.T, url string) *mcp.ClientSession {
	t.Helper()
	return connectAs(t, url, "", nil)
}

// connectAs is connectMCP in a revision, the last if it is empty, for a client
// that can more.
func connectAs(t *testing.T, url, revision string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	session, err := tryConnect(t, url, revision, options)
	if err != nil {
		t.Fatalf("cannot connect to %s: %v", url, err)
	}
	return session
}

// tryConnect is connectAs of what may not be there.
func tryConnect(t *testing.T, url, revision string, options *mcp.ClientOptions) (*mcp.ClientSession, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, options)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err == nil {
		t.Cleanup(func() { session.Close() })
	}
	return session, err
}

func callParams(name string) *mcp.CallToolParams {
	return &mcp.CallToolParams{Name: name, Arguments: map[string]any{}}
}

// callTool calls a tool and decodes its structured result.
func callTool[T any](t *testing.T, session *mcp.ClientSession, name string, arguments any) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("calling %s: %v", name, err)
	}
	if result.IsError {
		t.Fatalf("calling %s: the tool failed: %v", name, result.Content)
	}
	encoded, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var value T
	if err := json.Unmarshal(encoded, &value); err != nil {
		t.Fatalf("calling %s: %v in %s", name, err, encoded)
	}
	return value
}

// ask sends an agent a message, with the official Go client, and returns the
// states of the task as they streamed in, and the text of its artifacts.
func ask(t *testing.T, url, question string) (states []a2a.TaskState, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	card, err := agentcard.DefaultResolver.Resolve(ctx, url)
	if err != nil {
		t.Fatalf("cannot read the agent card: %v", err)
	}
	client, err := a2aclient.NewFromCard(ctx, card)
	if err != nil {
		t.Fatal(err)
	}
	request := &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(question))}
	for event, err := range client.SendStreamingMessage(ctx, request) {
		if err != nil {
			t.Fatalf("asking %q: %v", question, err)
		}
		switch e := event.(type) {
		case *a2a.Task:
			states = append(states, e.Status.State)
		case *a2a.TaskStatusUpdateEvent:
			states = append(states, e.Status.State)
		case *a2a.TaskArtifactUpdateEvent:
			for _, part := range e.Artifact.Parts {
				answer += part.Text()
			}
		}
	}
	return states, answer
}
