package relay

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/plughost/plughost/shared/wire"
)

// Headers of MCP over HTTP.
const (
	headerVersion   = "Mcp-Protocol-Version"
	headerSession   = "Mcp-Session-Id"
	headerMethod    = "Mcp-Method"
	headerName      = "Mcp-Name"
	headerLastEvent = "Last-Event-Id"
)

// firstStateless is the first revision without sessions. Revisions are dates,
// so they compare as strings.
const firstStateless = "2026-07-28"

// revisions are those with sessions.
var revisions = [...]string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// readMessage reads the message that a request brings. If it reports false it
// has answered why there is none.
func (r *Relay) readMessage(w http.ResponseWriter, req *http.Request) (m wire.Message, ok bool) {
	if !isJSON(req.Header.Get("Content-Type")) {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return m, false
	}
	if json, events := accepts(req.Header.Values("Accept")); !json || !events {
		http.Error(w, "Accept must have application/json and text/event-stream", http.StatusNotAcceptable)
		return m, false
	}
	bounded := req.Body
	if r.options.MaxBody > 0 {
		bounded = http.MaxBytesReader(w, bounded, r.options.MaxBody)
	}
	body, err := readBody(bounded, req.ContentLength)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(w, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
		return m, false
	case err != nil:
		http.Error(w, "cannot read the body", http.StatusBadRequest)
		return m, false
	}
	m, err = wire.Scan(body)
	var wrong *wire.Error
	if errors.As(err, &wrong) {
		writeError(w, http.StatusBadRequest, nil, wrong)
		return m, false
	}
	return traced(m, req.Header), true
}

// readBody reads all, at once if its length is known.
func readBody(body io.Reader, length int64) ([]byte, error) {
	const trusted = 1 << 20 // what is allocated on a client's word
	if length < 0 || length > trusted {
		return io.ReadAll(body)
	}
	data := make([]byte, length)
	_, err := io.ReadFull(body, data)
	return data, err
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/json"
}

// accepts reports which of the two forms of an answer a client takes.
func accepts(values []string) (json, events bool) {
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			mediaType, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(mediaType)) {
			case "application/json", "application/*":
				json = true
			case "text/event-stream", "text/*":
				events = true
			case "*/*":
				json, events = true, true
			}
		}
	}
	return json, events
}

// passedHeaders are those that the plugin sees.
var passedHeaders = [...]string{"Traceparent", "Tracestate", "X-Request-Id"}

// passedOn picks the headers that go to the plugin.
func passedOn(header http.Header) map[string]string {
	var passed map[string]string
	for _, name := range passedHeaders {
		if value := header.Get(name); value != "" {
			if passed == nil {
				passed = make(map[string]string)
			}
			passed[name] = value
		}
	}
	return passed
}
