package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plughost/plughost/shared/mcphttp"
	"github.com/plughost/plughost/shared/resend"
	"github.com/plughost/plughost/shared/wire"
)

// Bounds of what is waited for when the connection to a remote server breaks.
const (
	minReconnect = time.Second
	maxReconnect = 30 * time.Second
	// maxResumes is how often in a row it is tried to hear the rest of an answer.
	maxResumes = 5
	// maxIdle is how many connections are kept between requests.
	maxIdle = 64
	// deleteTimeout is for saying that a session has ended, which is a courtesy.
	deleteTimeout = 5 * time.Second
)

// endpoint is the address of a remote server.
type endpoint struct {
	url     string
	headers map[string]string
	http    *http.Client
}

func newEndpoint(address string, headers map[string]string) *endpoint {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = maxIdle
	transport.IdleConnTimeout = resend.IdleTimeout
	return &endpoint{address, headers, &http.Client{Transport: &resend.Transport{Next: transport}, CheckRedirect: sameServer}}
}

// sameServer keeps the headers from going elsewhere, and a message from being
// dropped: some redirects make a GET of a POST.
func sameServer(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if req.URL.Scheme != first.Scheme || req.URL.Host != first.Host {
		return fmt.Errorf("it redirects to %s://%s, which is another server", req.URL.Scheme, req.URL.Host)
	}
	if req.Method != via[0].Method {
		return fmt.Errorf("it redirects with %s, upon which no message is sent again: write where it leads as the service's url", req.Response.Status)
	}
	if len(via) > 3 {
		return errors.New("it redirects again and again")
	}
	return nil
}

// statusError is an answer over HTTP that holds no answer of MCP.
type statusError struct {
	code   int
	reason string // why, as the server says; it may be empty
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("the remote server answers %d %s", e.code, http.StatusText(e.code))
	if e.reason != "" {
		text += ": " + e.reason
	}
	if e.refused() {
		text += ": check the service's headers"
	}
	return text
}

// passing reports whether it may be otherwise a little later.
func (e *statusError) passing() bool {
	return e.code >= http.StatusInternalServerError || e.code == http.StatusTooManyRequests
}

// refused reports whether the server does not accept who asks.
func (e *statusError) refused() bool {
	return e.code == http.StatusUnauthorized || e.code == http.StatusForbidden
}

// connectionError says what the end of a connection kept from being done.
type connectionError struct {
	what string
	err  error
}

func (e *connectionError) Error() string { return e.what + ": " + e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

// passing reports whether a failure may be over a little later.
func passing(err error) bool {
	var status *statusError
	if errors.As(err, &status) {
		return status.passing()
	}
	var connection *connectionError
	return errors.As(err, &connection) && !errors.Is(err, context.DeadlineExceeded)
}

// errForgotten says that the server does not know the session any more.
var errForgotten = errors.New("the remote server does not know the session any more")

// link is a session with a remote server, as it is on the wire, or what stands
// alone.
type link struct {
	*endpoint
	tools *mcphttp.ToolHeaders // repeats in headers what is in requests; nil in a session

	mu       sync.Mutex
	id       string // "" if the server gives none
	revision string // "" before it is negotiated

	closed atomic.Bool // the server was told that it has ended
}

// do makes a request. Its errors do not show the address, which may have a
// secret in it.
func (l *link) do(ctx context.Context, method string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, l.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the remote server's URL makes no sense")
	}
	for name, value := range l.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Accept", "text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(req.Header, header)
	l.mu.Lock()
	id, revision := l.id, l.revision
	l.mu.Unlock()
	if id != "" {
		req.Header.Set("Mcp-Session-Id", id)
	}
	if revision != "" {
		req.Header.Set("Mcp-Protocol-Version", revision)
	}
	resp, err := l.http.Do(req)
	if urlErr := (*url.Error)(nil); errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	if err != nil {
		return nil, &connectionError{"cannot reach the remote server", err}
	}
	if id != "" && resp.StatusCode == http.StatusNotFound {
		resp.Body.Close()
		return nil, errForgotten
	}
	return resp, nil
}

// after asks for the events that come after one.
func after(event string) http.Header {
	if event == "" {
		return nil
	}
	return http.Header{"Last-Event-Id": {event}}
}

// tell posts a notification or an answer, and returns when the server has it.
func (l *link) tell(ctx context.Context, message []byte) error {
	resp, err := l.do(ctx, http.MethodPost, message, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return &statusError{code: resp.StatusCode}
	}
	return nil
}

// ask posts a request, and hands over all that the server says to it, the answer
// last. If the connection breaks before that it asks for the rest, where the
// server keeps it; the request itself is never repeated.
func (l *link) ask(ctx context.Context, request wire.Message, deliver func(wire.Message)) error {
	header := make(http.Header)
	if l.tools != nil {
		l.tools.Repeat(header, request)
	}
	resp, err := l.do(ctx, http.MethodPost, request.Raw, header)
	if err != nil {
		return err
	}
	if string(request.Method) == "initialize" {
		l.greeted(resp.Header.Get("Mcp-Session-Id"))
		deliver = l.negotiating(deliver)
	}
	s := &answerStream{link: l, deliver: func(m wire.Message) (last bool) {
		m, last = answerTo(m, request.Bytes(request.ID))
		deliver(m)
		return last
	}}
	return s.read(ctx, resp)
}

// named reports whether the server has given the session an id.
func (l *link) named() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id != ""
}

func (l *link) greeted(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id = id
}

// negotiating takes note of the revision that the server chose.
func (l *link) negotiating(deliver func(wire.Message)) func(wire.Message) {
	return func(m wire.Message) {
		var result struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		if m.Kind == wire.Response && json.Unmarshal(m.Bytes(m.Result), &result) == nil {
			l.mu.Lock()
			l.revision = result.ProtocolVersion
			l.mu.Unlock()
		}
		deliver(m)
	}
}

// listen hands over what the server says by itself, until ctx ends or the server
// does not know the session any more. It connects again and again. A server
// that says nothing by itself ends it.
func (l *link) listen(ctx context.Context, deliver func(wire.Message)) error {
	s := &answerStream{link: l, deliver: func(m wire.Message) bool { deliver(m); return false }}
	for wait := minReconnect; ; wait = min(2*wait, maxReconnect) {
		resp, err := l.do(ctx, http.MethodGet, nil, after(s.last))
		switch {
		case errors.Is(err, errForgotten):
			return err
		case err == nil && isStream(resp):
			wait = minReconnect
			_ = s.events(resp.Body) // however it ended, it begins again
		case err == nil:
			resp.Body.Close()
			if status := (&statusError{code: resp.StatusCode}); !status.passing() {
				return nil // it offers no such stream
			}
		}
		if err := pause(ctx, max(wait, s.retry)); err != nil {
			return err
		}
	}
}

// close tells the server that the session has ended, once.
func (l *link) close(ctx context.Context) {
	if !l.named() || l.closed.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if resp, err := l.do(ctx, http.MethodDelete, nil, nil); err == nil {
		resp.Body.Close()
	}
}

// answerStream is what a server says, over one connection or several.
type answerStream struct {
	link    *link
	deliver func(wire.Message) (last bool)
	last    string // the id of the last event
	retry   time.Duration
	done    bool // the last message was delivered
}

// read reads the answer to a request.
func (s *answerStream) read(ctx context.Context, resp *http.Response) error {
	if !isStream(resp) {
		return s.single(resp)
	}
	err := s.events(resp.Body)
	for resumes := 0; !s.done && ctx.Err() == nil; resumes++ {
		switch {
		case errors.Is(err, errLongEvent), errors.Is(err, errForgotten):
			return err
		case s.last == "" || resumes == maxResumes:
			return &connectionError{"the connection to the remote server broke before its answer", err}
		}
		if err := pause(ctx, max(minReconnect, s.retry)); err != nil {
			return err
		}
		before := s.last
		if resp, err = s.link.do(ctx, http.MethodGet, nil, after(s.last)); err != nil {
			continue
		}
		if !isStream(resp) {
			resp.Body.Close()
			status := &statusError{code: resp.StatusCode}
			if !status.passing() {
				return status
			}
			err = status
			continue
		}
		if err = s.events(resp.Body); s.last != before {
			resumes = 0
		}
	}
	return context.Cause(ctx)
}

// single reads an answer that is one message.
func (s *answerStream) single(resp *http.Response) error {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxLine+1))
	if err != nil {
		return &connectionError{"the connection to the remote server broke before its answer", err}
	}
	m, err := wire.Scan(bytes.TrimSpace(body))
	reason := reasonOf(m)
	switch {
	case err == nil && m.Kind == wire.Response && reason == "" && s.deliver(m):
		return nil
	case resp.StatusCode >= http.StatusMultipleChoices:
		return &statusError{resp.StatusCode, reason}
	case reason != "":
		return fmt.Errorf("the remote server did not read the request's id: %s", reason)
	default:
		return errors.New("the remote server's answer is no answer to the request")
	}
}

// reasonOf is what an error says that names no request.
func reasonOf(m wire.Message) string {
	if id := m.Bytes(m.ID); !m.Error.Found() || id != nil && string(id) != "null" {
		return ""
	}
	at, _ := m.Find(m.Error, "message")
	text, _ := wire.Text(m.Bytes(at))
	return string(shown(text))
}

// events hands over the messages of a stream of events, to its end.
func (s *answerStream) events(body io.ReadCloser) error {
	defer body.Close()
	for reader := newEvents(body); !s.done; {
		e, err := reader.next()
		if err != nil && !errors.Is(err, errLongEvent) {
			return err
		}
		s.last, s.retry = e.id, e.retry
		if err != nil {
			return err // and what comes after it is asked for
		}
		if m, err := wire.Scan(e.data); err == nil {
			s.done = s.deliver(m)
		}
	}
	return nil
}

func isStream(resp *http.Response) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == "text/event-stream" && resp.StatusCode == http.StatusOK
}

// pause waits, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
