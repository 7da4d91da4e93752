// Package guard stands before the gateway: it serves HTTP, refuses what web
// pages of elsewhere send, finds out who calls, and bounds what callers cost.
// What it lets pass carries its caller and an id in the context and headers.
package guard

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/net/netutil"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
)

const (
	// headerTimeout is what a client has to send the headers of a request.
	headerTimeout = 10 * time.Second
	// bodyTimeout is what it has to send the body.
	bodyTimeout = time.Minute
	// writeTimeout is how long it may leave an answer unread. A stream on which
	// nothing is written lasts as long as both sides like.
	writeTimeout = 2 * time.Minute
	// idleTimeout is how long a connection without a request is kept.
	idleTimeout = 2 * time.Minute
)

// Observer is told what comes of requests. Its methods do not block.
type Observer interface {
	// Refused is called for each request that was not let pass.
	Refused(Reason)
	// Served is called for each that was, when it has ended.
	Served(Exchange)
}

// Exchange is a request and its answer.
type Exchange struct {
	// Service is the one whose endpoint it was for. Its name is empty for the
	// endpoint that joins all, and its kind too for endpoints of the host.
	Service  config.Ref
	Code     int
	Received int64 // bytes of the body
	Sent     int64 // bytes of the answer's body
	Took     time.Duration
}

// Guard guards an http.Handler. Configure may be called while it serves.
type Guard struct {
	next     http.Handler
	exposed  bool // more than this machine reaches it
	settings atomic.Pointer[settings]
	open     *open
	guesses  *guesses
	observer Observer
	log      hclog.Logger
	server   http.Server
	pair     *keyPair // nil without TLS
	most     int      // connections
	times    times
}

// times bound what a client may take: to send a body, and to read what is
// written to it.
type times struct{ body, write time.Duration }

// New makes a guard of next for a configuration without a fault.
func New(conf *config.Config, next http.Handler, observer Observer, log hclog.Logger) (*Guard, error) {
	gateway := conf.Host.Gateway
	g := &Guard{
		next:     next,
		exposed:  !conf.Host.OnLoopback(),
		open:     newOpen(),
		guesses:  newGuesses(),
		observer: observer,
		log:      log,
		most:     gateway.Limits.Connections,
		times:    times{bodyTimeout, writeTimeout},
	}
	g.server = http.Server{
		Handler:           http.HandlerFunc(g.guard),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    int(gateway.Limits.Headers),
		HTTP2:             &http.HTTP2Config{WriteByteTimeout: writeTimeout},
		ErrorLog:          serverLog(log),
	}
	if gateway.TLS != (config.TLS{}) {
		var err error
		if g.pair, err = newKeyPair(gateway.TLS, log); err != nil {
			return nil, err
		}
		g.server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: g.pair.get}
	}
	g.Configure(conf)
	return g, nil
}

// Configure has the guard follow a configuration that was taken, but for what
// takes another start of the host. Who listens by a token that changed has to
// come again. It returns the callers whose tokens changed, as they are now: one
// whose token is gone reaches nothing.
func (g *Guard) Configure(conf *config.Config) (changed []caller.Caller) {
	after := newSettings(conf)
	before := g.settings.Swap(after)
	if before != nil {
		for _, name := range before.changed(after) {
			g.open.endListening(name)
			changed = append(changed, after.caller(name))
		}
	}
	if files := conf.Host.Gateway.TLS; g.pair != nil && files != (config.TLS{}) {
		g.pair.use(files)
	}
	return changed
}

// Scheme is that of the URLs of the endpoints.
func (g *Guard) Scheme() string {
	if g.pair != nil {
		return "https"
	}
	return "http"
}

// Serve answers requests until Shutdown or Close.
func (g *Guard) Serve(listener net.Listener) error {
	listener = netutil.LimitListener(listener, g.most)
	var err error
	if g.pair != nil {
		err = g.server.ServeTLS(listener, "", "")
	} else {
		err = g.server.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown takes no more requests, and waits for those under way until ctx
// ends; then it cuts them off.
func (g *Guard) Shutdown(ctx context.Context) {
	if err := g.server.Shutdown(ctx); err != nil {
		_ = g.server.Close()
	}
}

// Owner serves who runs the host, by a way that is theirs alone: they may do
// everything, without a token.
func (g *Guard) Owner() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		identify(w, r)
		limitTime(w, r, g.times.body)
		g.serve(w, r, g.settings.Load(), caller.Caller{Name: caller.Owner})
	})
}

// guard lets a request pass that may.
func (g *Guard) guard(w http.ResponseWriter, r *http.Request) {
	identify(w, r)
	limitTime(w, r, g.times.body)
	s := g.settings.Load()
	if !s.knowsHost(r.Host, g.exposed) {
		g.refuse(w, r, ReasonHost)
		return
	}
	if !s.allowsOrigin(r.Header.Values("Origin"), g.exposed) {
		g.refuse(w, r, ReasonOrigin)
		return
	}
	if s.allowed(r.Header.Get("Origin")) && crossOrigin(w, r) {
		return
	}
	if isOpen(r.URL.Path) {
		g.next.ServeHTTP(w, r)
		return
	}
	who, reason := s.authenticate(r.Header.Values("Authorization"), g.exposed)
	if reason == ReasonBadToken {
		if wait := g.guesses.count(r.RemoteAddr, time.Now()); wait > 0 {
			w.Header().Set("Retry-After", retryAfter(wait))
			reason = ReasonGuessing
		}
	}
	if reason != "" {
		g.refuse(w, r, reason)
		return
	}
	g.serve(w, r, s, who)
}

// serve answers a request of a known caller, within the limits.
func (g *Guard) serve(w http.ResponseWriter, r *http.Request, s *settings, who caller.Caller) {
	if r.ContentLength > s.limits.Body {
		g.refuse(w, r, ReasonTooLarge)
		return
	}
	ctx, done, ok := g.open.begin(who.Name, r, s.limits)
	if !ok {
		g.refuse(w, r, ReasonTooMany)
		return
	}
	defer done()
	if after := g.settings.Load(); after != s && slices.Contains(s.changed(after), who.Name) {
		g.open.endListening(who.Name) // again: it may have been done before this one began
	}
	began, service := time.Now(), s.service(r.URL.Path)
	request := r.WithContext(caller.NewContext(ctx, who))
	body := limitBody(w, request, s.limits.Body)
	answer := &answer{ResponseWriter: w, control: http.NewResponseController(w), body: body, timeout: g.times.write}
	defer func() {
		answer.end()
		g.served(r, who, Exchange{
			Service: service, Code: answer.code(), Received: body.read.Load(), Sent: answer.sent, Took: time.Since(began),
		})
	}()
	g.next.ServeHTTP(answer, request)
}

func (g *Guard) served(r *http.Request, who caller.Caller, e Exchange) {
	g.observer.Served(e)
	if g.log.IsDebug() {
		g.log.Debug("answered a request", "request", r.Header.Get(requestIDHeader), "caller", who.Name,
			"method", r.Method, "path", r.URL.Path, "status", e.Code, "received", e.Received, "sent", e.Sent, "took", e.Took)
	}
}
