//go:build linux

package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// legacy is the revision that is spoken, the latest that all know who are
// measured.
const legacy = "2025-11-25"

const (
	mcpInitialize  = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + legacy + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	mcpInitialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// echoed is what the tool is called with, and answers.
const echoed = "The quick brown fox jumps over the lazy dog."

// clients are the ways to call a tool; each opens a session for so many callers
// and returns what makes the nth call in it.
var clients = []struct {
	name string
	open func(b *testing.B, url, tool string, callers int) (call func(n int) error)
}{
	{"encoded", openEncoded},
	{"official", openOfficial},
}

// mcpClient is a session whose requests cost nearly nothing: they are encoded
// before, and answers are not decoded.
type mcpClient struct {
	url     string
	session string
	http    *http.Client
}

// openEncoded has calls be made that cost nearly nothing.
func openEncoded(b *testing.B, url, tool string, callers int) func(n int) error {
	b.Helper()
	c := newMCPClient(b, url, callers)
	after := `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"message":"` + echoed + `"}}}`
	return func(n int) error {
		return c.call(`{"jsonrpc":"2.0","id":`+strconv.Itoa(n)+after, echoed)
	}
}

func newMCPClient(b *testing.B, url string, callers int) *mcpClient {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	b.Cleanup(transport.CloseIdleConnections)
	c := &mcpClient{url: url, http: &http.Client{Transport: transport}}
	if err := c.initialize(); err != nil {
		b.Fatal(err)
	}
	return c
}

// initialize begins the session.
func (c *mcpClient) initialize() error {
	header, err := c.post(mcpInitialize, "serverInfo")
	if err != nil {
		return err
	}
	c.session = header.Get("Mcp-Session-Id")
	return c.call(mcpInitialized, "")
}

func (c *mcpClient) call(message, want string) error {
	_, err := c.post(message, want)
	return err
}

// post sends a message, in whose answer there must be what is wanted.
func (c *mcpClient) post(message, want string) (http.Header, error) {
	request, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		request.Header.Set("Mcp-Session-Id", c.session)
		request.Header.Set("Mcp-Protocol-Version", legacy)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 || !strings.Contains(string(body), want) {
		return nil, fmt.Errorf("%s: status %d, %s, error %w", c.url, response.StatusCode, body, err)
	}
	return response.Header, nil
}

// listen opens the stream on which the client listens.
func (c *mcpClient) listen(ctx context.Context) (io.Closer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Mcp-Session-Id", c.session)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s: to listen is answered %s", c.url, response.Status)
	}
	return response.Body, nil
}

// openOfficial has calls be made with the official client.
func openOfficial(b *testing.B, url, tool string, callers int) func(n int) error {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	b.Cleanup(transport.CloseIdleConnections)
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	session, err := client.Connect(b.Context(),
		&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: transport}},
		&mcp.ClientSessionOptions{ProtocolVersion: legacy})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = session.Close() })
	return func(int) error {
		result, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"message": echoed}})
		if err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
		if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != echoed {
			return fmt.Errorf("%s: the answer is %v", url, result.Content)
		}
		return nil
	}
}
