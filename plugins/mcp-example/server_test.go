package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func newClient() *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
}

// connect returns a client's session with the server, in memory.
func connect(t *testing.T, server *mcp.Server) *mcp.ClientSession {
	t.Helper()
	serverEnd, clientEnd := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), serverEnd, nil); err != nil {
		t.Fatal(err)
	}
	session, err := newClient().Connect(t.Context(), clientEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// call calls a tool and decodes its result into out.
func call(t *testing.T, session *mcp.ClientSession, tool string, args map[string]any, out any) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatal(err)
	}
	if result.IsError {
		t.Fatalf("%s: %v", tool, result.GetError())
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(structured, out); err != nil {
		t.Fatal(err)
	}
	if text := textOf(result); !json.Valid([]byte(text)) {
		t.Errorf("%s: the content for clients without structured output is %q", tool, text)
	}
}

func textOf(result *mcp.CallToolResult) string {
	var text strings.Builder
	for _, content := range result.Content {
		if c, ok := content.(*mcp.TextContent); ok {
			text.WriteString(c.Text)
		}
	}
	return text.String()
}

func TestServerOffersItsTools(t *testing.T) {
	session := connect(t, newServer(at(t, "2026-03-01T12:00:00Z"), defaultSettings()))

	capabilities := session.InitializeResult().Capabilities
	if capabilities.Tools == nil || capabilities.Resources == nil || capabilities.Prompts == nil {
		t.Errorf("capabilities %+v, want tools, resources and prompts", capabilities)
	}
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
		if tool.OutputSchema == nil || tool.Description == "" || !tool.Annotations.ReadOnlyHint {
			t.Errorf("%s has no output schema or description, or is not said to be read-only", tool.Name)
		}
	}
	if got, want := strings.Join(names, " "), "convert days_between now"; got != want {
		t.Errorf("tools %q, want %q", got, want)
	}
}

func TestServerAnswersCalls(t *testing.T) {
	session := connect(t, newServer(at(t, "2026-03-01T12:00:00Z"), defaultSettings()))

	var now moment
	call(t, session, "now", map[string]any{"zone": "Asia/Tokyo"}, &now)
	if want := (moment{"Asia/Tokyo", "2026-03-01T21:00:00+09:00", "Sunday", "+09:00"}); now != want {
		t.Errorf("now: %+v, want %+v", now, want)
	}
	call(t, session, "now", nil, &now)
	if want := "2026-03-01T12:00:00Z"; now.Time != want {
		t.Errorf("now without arguments: %s, want %s", now.Time, want)
	}

	var converted convertOutput
	call(t, session, "convert", map[string]any{"time": "15:00", "from": "Europe/Berlin", "to": "Asia/Tokyo"}, &converted)
	if want := "2026-03-01T23:00:00+09:00"; converted.To.Time != want {
		t.Errorf("convert: %s, want %s", converted.To.Time, want)
	}

	var days daysOutput
	call(t, session, "days_between", map[string]any{"from": "2026-01-01", "to": "2026-03-01"}, &days)
	if days.Days != 59 {
		t.Errorf("days_between: %d, want 59", days.Days)
	}
}

func TestBadArgumentsAreToolErrors(t *testing.T) {
	session := connect(t, newServer(at(t, "2026-03-01T12:00:00Z"), defaultSettings()))
	tests := []struct {
		name, tool string
		args       map[string]any
		want       string
	}{
		{"an unknown zone", "now", map[string]any{"zone": "Europe/Berln"}, "perhaps Europe/Berlin"},
		{"a time that is none", "convert", map[string]any{"time": "noon", "from": "UTC", "to": "UTC"}, "write 2026-03-01T15:04"},
		{"a date that is none", "days_between", map[string]any{"to": "soon"}, "write YYYY-MM-DD"},
		{"a missing argument", "convert", map[string]any{"time": "10:00", "from": "UTC"}, "to"},
		{"an argument of another type", "now", map[string]any{"zone": 1}, "zone"},
		{"an argument too many", "now", map[string]any{"city": "Berlin"}, "city"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tt.tool, Arguments: tt.args})
			if err != nil {
				t.Fatalf("got the protocol error %v, want a tool error", err)
			}
			if !result.IsError || !strings.Contains(textOf(result), tt.want) {
				t.Errorf("error %t, %q; want an error that says %q", result.IsError, textOf(result), tt.want)
			}
		})
	}
}

func TestServerListsZones(t *testing.T) {
	session := connect(t, newServer(time.Now, defaultSettings()))
	result, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: zonesURI})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Contents) != 1 {
		t.Fatalf("%d contents, want 1", len(result.Contents))
	}
	if lines := strings.Split(result.Contents[0].Text, "\n"); lines[0] != zoneNames[0] || len(lines) != len(zoneNames)+1 {
		t.Errorf("%d lines, the first %q, want one for each zone", len(lines), lines[0])
	}
}

func TestServerOffersTheMeetingPrompt(t *testing.T) {
	session := connect(t, newServer(at(t, "2026-03-01T12:00:00Z"), defaultSettings()))
	result, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{
		Name:      "meeting",
		Arguments: map[string]string{"zones": "Europe/Berlin,Asia/Tokyo", "duration": "30m"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Messages) != 1 {
		t.Fatalf("%d messages, want 1", len(result.Messages))
	}
	text, ok := result.Messages[0].Content.(*mcp.TextContent)
	if !ok || !strings.Contains(text.Text, "meeting of 30 minutes") {
		t.Errorf("got %+v", result.Messages[0].Content)
	}

	_, err = session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "meeting"})
	var rpcError *jsonrpc.Error
	if !errors.As(err, &rpcError) || rpcError.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("without zones: %v, want invalid params", err)
	}
}

// Run by hand, without a host, the plugin is a plain MCP server.
func TestBinaryServesOnStdio(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "mcp-example")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}

	command := exec.Command(binary)
	var stderr strings.Builder
	command.Stderr = &stderr
	command.Env = append(os.Environ(), "TZ=Asia/Tokyo") // what this machine thinks does not matter
	session, err := newClient().Connect(t.Context(), &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var now moment
	call(t, session, "now", nil, &now)
	if told, err := time.Parse(time.RFC3339, now.Time); err != nil || time.Since(told).Abs() > time.Hour || now.Zone != "UTC" {
		t.Errorf("now: %+v, want the current time in UTC", now)
	}
	if err := session.Close(); err != nil {
		t.Errorf("the server did not end well: %v", err)
	}
	if stderr.Len() != 0 {
		t.Errorf("on standard error: %s", &stderr)
	}
}
