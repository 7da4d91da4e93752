// Package mcphttp serves MCP over Streamable HTTP for every revision of the
// protocol that the official SDK speaks, on one endpoint.
package mcphttp

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// firstStateless is the first revision without sessions. Revisions are dates,
// so they compare as strings.
const firstStateless = "2026-07-28"

// versionHeader names the revision that a request speaks; it is absent on the
// first request of the older ones.
const versionHeader = "Mcp-Protocol-Version"

// OnlyListens tells a stream of notifications from a call: a GET or, in the
// revisions without sessions, a request of its own method. A GET that takes up a
// lost stream waits for the answer to a call.
func OnlyListens(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Last-Event-Id") == "" || r.Header.Get("Mcp-Method") == "subscriptions/listen"
}

// Options bound what clients can cost.
type Options struct {
	// SessionTimeout ends a session (of a revision that has sessions) that
	// made no request for so long. Zero means 30 minutes.
	SessionTimeout time.Duration
	// Guarded says that something before the handler checks the Host header of
	// all requests and bounds their bodies. Without it those that come by a
	// loopback address must name one there, and bodies have 4 MiB at the most.
	Guarded bool
	// Logger gets what the SDK has to say. Nil means nothing is logged.
	Logger *slog.Logger
}

// Handler serves the server that getServer returns for a request. It is asked
// more than once a request, so it must be cheap and always give the same answer;
// a session stays with the server of its first request.
//
// The SDK serves revisions with and without sessions by different handlers,
// and a request names the revision that it speaks, so this one looks at that.
func Handler(getServer func(*http.Request) *mcp.Server, opts Options) http.Handler {
	if opts.SessionTimeout == 0 {
		opts.SessionTimeout = 30 * time.Minute
	}
	maxBody := int64(0) // the SDK's
	if opts.Guarded {
		maxBody = -1
	}
	stateful := mcp.NewStreamableHTTPHandler(getServer, &mcp.StreamableHTTPOptions{
		SessionTimeout:             opts.SessionTimeout,
		DisableLocalhostProtection: opts.Guarded,
		MaxRequestBodyBytes:        maxBody,
		Logger:                     opts.Logger,
	})
	stateless := mcp.NewStreamableHTTPHandler(getServer, &mcp.StreamableHTTPOptions{
		Stateless:                    true,
		PropagateRequestCancellation: true,
		DisableLocalhostProtection:   opts.Guarded,
		MaxRequestBodyBytes:          maxBody,
		Logger:                       opts.Logger,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(versionHeader) >= firstStateless {
			stateless.ServeHTTP(w, r)
			return
		}
		stateful.ServeHTTP(w, r)
	})
}
