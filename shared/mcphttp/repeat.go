package mcphttp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/wire"
)

// ToolHeaders are what a server's tools want to have in headers, for a client
// that passes messages on as they are. The zero value knows of no tool.
type ToolHeaders struct {
	mu     sync.Mutex
	byTool map[string][]ParamHeader
}

// Learn takes from a message, if it has a list of tools, what they want to have
// in headers. Of all other messages only the bytes are looked at.
func (t *ToolHeaders) Learn(message []byte) {
	if !bytes.Contains(message, []byte(`"x-mcp-header"`)) {
		return
	}
	var list struct {
		Result struct {
			Tools []struct {
				Name        string
				InputSchema json.RawMessage
			}
		}
	}
	if json.Unmarshal(message, &list) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byTool == nil {
		t.byTool = make(map[string][]ParamHeader)
	}
	for _, tool := range list.Result.Tools {
		t.byTool[tool.Name] = ParamHeaders(tool.InputSchema)
	}
}

// Repeat says in headers what the revisions without sessions want there. A
// request of any other is left as it is.
func (t *ToolHeaders) Repeat(header http.Header, message wire.Message) {
	revision, ok := textOf(&message, "_meta", mcp.MetaKeyProtocolVersion)
	if !ok {
		return
	}
	header.Set("Mcp-Protocol-Version", revision)
	header.Set("Mcp-Method", string(message.Method))
	named := "name"
	if strings.HasPrefix(string(message.Method), "resources/") {
		named = "uri"
	}
	name, ok := textOf(&message, named)
	if !ok {
		return
	}
	header.Set("Mcp-Name", EncodeHeader(name))
	if string(message.Method) != "tools/call" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, param := range t.byTool[name] {
		value, err := message.Param(append([]string{"arguments"}, param.Path...)...)
		if err == nil && value.Found() && string(message.Bytes(value)) != "null" {
			header.Set(param.Name, EncodeHeader(plain(message.Bytes(value))))
		}
	}
}

// plain is a value as a header has it: a string without its quotes.
func plain(value []byte) string {
	if text, ok := wire.Text(value); ok {
		return string(text)
	}
	return string(value)
}

func textOf(message *wire.Message, path ...string) (string, bool) {
	at, err := message.Param(path...)
	if err != nil {
		return "", false
	}
	text, ok := wire.Text(message.Bytes(at))
	return string(text), ok
}
