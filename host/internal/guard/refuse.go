package guard

import (
	"net/http"
)

// Reason says why a request was not let pass.
type Reason string

// The reasons.
const (
	ReasonHost     Reason = "host"
	ReasonOrigin   Reason = "origin"
	ReasonNoToken  Reason = "no_token"
	ReasonBadToken Reason = "bad_token"
	ReasonGuessing Reason = "guessing"
	ReasonTooLarge Reason = "too_large"
	ReasonTooMany  Reason = "too_many"
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{ReasonHost, ReasonOrigin, ReasonNoToken, ReasonBadToken, ReasonGuessing, ReasonTooLarge, ReasonTooMany}
}

// refusal is what a client is told.
type refusal struct {
	code                int
	header, headerValue string
	text                string
}

func (r Reason) refusal() refusal {
	switch r {
	case ReasonHost:
		return refusal{code: http.StatusForbidden, text: "forbidden: the Host header is none of this gateway; its other names are configured by hosts in the gateway block"}
	case ReasonOrigin:
		return refusal{code: http.StatusForbidden, text: "forbidden: pages of this Origin may not use the gateway; those that may are configured by origins in the gateway block"}
	case ReasonNoToken:
		return refusal{http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="plughost"`, "a token is required, as in Authorization: Bearer TOKEN"}
	case ReasonBadToken:
		return refusal{http.StatusUnauthorized, "WWW-Authenticate", `Bearer realm="plughost", error="invalid_token"`, "the token is not one of this gateway"}
	case ReasonGuessing:
		return refusal{code: http.StatusTooManyRequests, text: "the token is not one of this gateway, and too many such came from this address"}
	case ReasonTooLarge:
		return refusal{code: http.StatusRequestEntityTooLarge, text: "the request is too large: see limits in the gateway block"}
	default:
		return refusal{http.StatusTooManyRequests, "Retry-After", "1", "too many requests of this caller at once: see limits in the gateway block"}
	}
}

// refuse answers a request that is not let pass.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, reason Reason) {
	refusal := reason.refusal()
	if refusal.header != "" {
		w.Header().Set(refusal.header, refusal.headerValue)
	}
	g.observer.Refused(reason)
	g.log.Debug("refused a request", "request", r.Header.Get(requestIDHeader), "reason", string(reason),
		"from", r.RemoteAddr, "method", r.Method, "path", r.URL.Path)
	http.Error(w, refusal.text, refusal.code)
}

// isOpen reports whether a path says nothing that only some may know.
func isOpen(path string) bool { return path == "/healthz" || path == "/readyz" }

// crossOrigin tells a browser that the pages of a configured origin may use the
// gateway, and reports whether that was all that it asked.
func crossOrigin(w http.ResponseWriter, r *http.Request) bool {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	header.Add("Vary", "Origin")
	header.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, "+requestIDHeader+", WWW-Authenticate, Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		header.Set("Access-Control-Allow-Headers", asked)
	}
	header.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
