package mcphttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/mcphttp"
)

const (
	modern    = "2026-07-28"
	endpoint  = "/mcp"
	accepted  = "application/json, text/event-stream"
	sessionID = "Mcp-Session-Id"
)

// serve serves a server with one tool, which reports progress.
func serve(t *testing.T, opts mcphttp.Options) (server *mcp.Server, url string) {
	t.Helper()
	server = mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)
	server.AddTool(&mcp.Tool{Name: "work", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if token := req.Params.GetProgressToken(); token != nil {
				_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1})
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: req.Session.ID()}}}, nil
		})
	mux := http.NewServeMux()
	mux.Handle(endpoint, mcphttp.Handler(func(*http.Request) *mcp.Server { return server }, opts))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return server, web.URL + endpoint
}

func TestOfficialClientOfEveryRevision(t *testing.T) {
	_, url := serve(t, mcphttp.Options{})
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25", modern} {
		t.Run(version, func(t *testing.T) {
			progress := make(chan any, 1)
			client := mcp.NewClient(&mcp.Implementation{Name: "client"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
					progress <- req.Params.ProgressToken
				},
			})
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1},
				&mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if got := session.InitializeResult().ProtocolVersion; got != version {
				t.Errorf("revision %s", got)
			}
			params := &mcp.CallToolParams{Name: "work"}
			params.SetProgressToken("mine")
			result, err := session.CallTool(t.Context(), params)
			if err != nil {
				t.Fatal(err)
			}
			id := result.Content[0].(*mcp.TextContent).Text
			if hasSession := id != ""; hasSession != (version < modern) {
				t.Errorf("session %q", id)
			}
			if got := <-progress; got != "mine" {
				t.Errorf("progress token %v", got)
			}
		})
	}
}

func TestListChangedReachesClientsWithAndWithoutSessions(t *testing.T) {
	server, url := serve(t, mcphttp.Options{})
	changed := make(chan string)
	versions := []string{"2025-11-25", modern}
	for _, version := range versions {
		client := mcp.NewClient(&mcp.Implementation{Name: "client"}, &mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
				select {
				case changed <- version:
				case <-t.Context().Done(): // it comes when nobody waits for it
				}
			},
		})
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1},
			&mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
	}
	// A client's listening stream may open after Connect: change until it has heard.
	heard := make(map[string]bool)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(heard) < len(versions) {
		select {
		case version := <-changed:
			heard[version] = true
		case <-tick.C:
			server.AddTool(&mcp.Tool{Name: "new", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
		}
	}
}

// post sends one message as any program may, and returns the answer's status,
// its headers and its message.
func post(t *testing.T, url string, headers map[string]string, body string) (int, http.Header, map[string]any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", accepted)
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var message map[string]any
	for line := range bytes.Lines(content) { // of JSON, or of an event
		line, _ = bytes.CutPrefix(line, []byte("data: "))
		_ = json.Unmarshal(line, &message)
	}
	return response.StatusCode, response.Header, message
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`

func TestRawClientWithASession(t *testing.T) {
	_, url := serve(t, mcphttp.Options{})
	status, header, message := post(t, url, nil, initialize)
	id := header.Get(sessionID)
	if status != http.StatusOK || id == "" || message["result"] == nil {
		t.Fatalf("initialize: status %d, session %q, message %v", status, id, message)
	}
	headers := map[string]string{sessionID: id, "Mcp-Protocol-Version": "2025-06-18"}
	if status, _, _ := post(t, url, headers, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != http.StatusAccepted {
		t.Errorf("initialized: status %d", status)
	}
	for call := range 3 {
		status, _, message := post(t, url, headers, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"work"}}`)
		if status != http.StatusOK || message["result"] == nil {
			t.Errorf("call %d: status %d, message %v", call, status, message)
		}
	}
	headers[sessionID] = "unknown"
	if status, _, _ := post(t, url, headers, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`); status != http.StatusNotFound {
		t.Errorf("an unknown session: status %d, want 404", status)
	}
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

func TestRawClientWithoutASession(t *testing.T) {
	_, url := serve(t, mcphttp.Options{})
	for call := range 3 {
		status, header, message := post(t, url,
			map[string]string{"Mcp-Protocol-Version": modern, "Mcp-Method": "tools/call", "Mcp-Name": "work"},
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work",`+modernMeta+`}}`)
		if status != http.StatusOK || message["result"] == nil || header.Get(sessionID) != "" {
			t.Errorf("call %d: status %d, session %q, message %v", call, status, header.Get(sessionID), message)
		}
	}
}

func TestRevisionThatNobodySpeaksIsRefused(t *testing.T) {
	_, url := serve(t, mcphttp.Options{})
	for _, version := range []string{"1999-01-01", "2999-01-01", "latest"} {
		status, _, _ := post(t, url, map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": "tools/list"},
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`)
		if status != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", version, status)
		}
	}
}

func TestIdleSessionEnds(t *testing.T) {
	server, url := serve(t, mcphttp.Options{SessionTimeout: 10 * time.Millisecond})
	if _, header, _ := post(t, url, nil, initialize); header.Get(sessionID) == "" {
		t.Fatal("no session")
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		open := 0
		for range server.Sessions() {
			open++
		}
		if open == 0 {
			return
		}
		<-tick.C
	}
}
