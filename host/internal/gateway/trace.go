package gateway

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// MetaRequestID is in _meta the id of the HTTP request that a plugin's request
// came from, as it is in the host's log.
const MetaRequestID = "plughost/request-id"

// traced adds to a request's _meta what its headers say of where it came from:
// its id and, as MCP names it there too, the trace that it belongs to. What the
// client says in _meta itself goes before.
func traced(meta mcp.Meta, extra *mcp.RequestExtra) mcp.Meta {
	if extra == nil {
		return meta
	}
	for key, header := range map[string]string{
		MetaRequestID: "X-Request-Id",
		"traceparent": "Traceparent",
		"tracestate":  "Tracestate",
		"baggage":     "Baggage",
	} {
		meta = withMeta(meta, key, extra.Header, header)
	}
	return meta
}

func withMeta(meta mcp.Meta, key string, headers http.Header, header string) mcp.Meta {
	value := headers.Get(header)
	if _, there := meta[key]; there || value == "" {
		return meta
	}
	if meta == nil {
		meta = make(mcp.Meta)
	}
	meta[key] = value
	return meta
}
