package stdio

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"github.com/plughost/plughost/shared/mcphttp"
	"github.com/plughost/plughost/shared/wire"
)

// toolHeaders are what tools want to have in headers, as far as the client has
// seen it in their list.
type toolHeaders struct {
	mu     sync.Mutex
	byTool map[string][]mcphttp.ParamHeader
}

// learn takes from a list of tools what they want to have in headers. Of all
// other messages only the bytes are looked at.
func (t *toolHeaders) learn(message []byte) {
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
		t.byTool = make(map[string][]mcphttp.ParamHeader)
	}
	for _, tool := range list.Result.Tools {
		t.byTool[tool.Name] = mcphttp.ParamHeaders(tool.InputSchema)
	}
}

// repeat says in headers what the revisions without sessions want there.
func (t *toolHeaders) repeat(header http.Header, message wire.Message) {
	revision, ok := textOf(&message, "_meta", "io.modelcontextprotocol/protocolVersion")
	if !ok {
		return
	}
	header.Set(headerRevision, revision)
	header.Set("Mcp-Method", string(message.Method))
	named := "name"
	if strings.HasPrefix(string(message.Method), "resources/") {
		named = "uri"
	}
	name, ok := textOf(&message, named)
	if !ok {
		return
	}
	header.Set("Mcp-Name", mcphttp.EncodeHeader(name))
	if string(message.Method) != "tools/call" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, param := range t.byTool[name] {
		value, err := message.Param(append([]string{"arguments"}, param.Path...)...)
		if err == nil && value.Found() && string(message.Bytes(value)) != "null" {
			header.Set(param.Name, mcphttp.EncodeHeader(plain(message.Bytes(value))))
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
