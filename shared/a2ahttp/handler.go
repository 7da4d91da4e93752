// Package a2ahttp serves A2A over HTTP: both of its bindings, in the present
// version of the protocol and in 0.3, at one URL, and the agent's card below it.
package a2ahttp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/log"
)

const (
	// MaxRequest bounds a request, in bytes; it may hold files.
	MaxRequest = 16 << 20
	// keepAlive is how often a stream without events shows that it is alive.
	keepAlive = 20 * time.Second
)

// Handler serves an agent at the root. The bindings share one URL: the paths of
// the REST binding, of either version, are nobody else's. card returns the
// agent's card for a request, or an error, which says why the agent cannot be
// called and is answered with the status 503.
func Handler(agent a2asrv.RequestHandler, card func(*http.Request) (*a2a.AgentCard, error)) http.Handler {
	quiet := slog.New(slog.DiscardHandler) // of clients that went away
	checked := &a2asrv.InterceptedHandler{
		Handler:      agent,
		Interceptors: []a2asrv.CallInterceptor{versions{}},
		Logger:       quiet,
	}
	alive := a2asrv.WithTransportKeepAlive(keepAlive)
	mux := http.NewServeMux()
	mux.Handle("/{$}", byVersion(a2asrv.NewJSONRPCHandler(checked, alive), a2av0.NewJSONRPCHandler(checked, alive)))
	mux.Handle(a2av0.RESTPathPrefix+"/", a2av0.NewRESTHandler(checked, alive))
	mux.Handle("/", a2asrv.NewRESTHandler(checked, alive))
	mux.HandleFunc(a2asrv.WellKnownAgentCardPath, func(w http.ResponseWriter, r *http.Request) {
		serveCard(w, r, card)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > MaxRequest {
			refuseSize(w)
			return
		}
		r = r.WithContext(log.AttachLogger(r.Context(), quiet))
		r.Body = http.MaxBytesReader(w, r.Body, MaxRequest)
		mux.ServeHTTP(w, r)
	})
}

func refuseSize(w http.ResponseWriter) {
	http.Error(w, fmt.Sprintf("the request is larger than %d bytes", MaxRequest), http.StatusRequestEntityTooLarge)
}

func refuseBody(w http.ResponseWriter, err error) {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		refuseSize(w)
		return
	}
	http.Error(w, "the request could not be read", http.StatusBadRequest)
}
