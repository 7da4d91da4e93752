package guard

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
)

const (
	aliceToken = "alice-0123456789-abcdef"
	bobToken   = "bob-0123456789-abcdef"
)

func tokenOf(name, secret string, access config.Access) config.Token {
	return config.Token{Name: name, Digest: sha256.Sum256([]byte(secret)), Access: access}
}

func everything() config.Access {
	return config.Access{Agents: []string{"*"}, Tools: config.Tools{Allow: []string{"*/*"}}}
}

// conf is a configuration with small limits and, unless there are none, tokens.
func conf(listen string, tokens ...config.Token) *config.Config {
	return &config.Config{
		Host: config.Host{Listen: listen, Gateway: config.Gateway{
			Tokens: tokens,
			Limits: config.GatewayLimits{Body: 1000, Headers: 4 << 10, Requests: 2, Listeners: 2, Connections: 10},
		}},
		Services: []config.Service{{Kind: config.KindMCP, Name: "clock"}},
	}
}

// seen is what a guard told its observer.
type seen struct {
	mu      sync.Mutex
	refused []Reason
	served  chan Exchange
}

func newSeen() *seen { return &seen{served: make(chan Exchange, 100)} }

func (s *seen) Refused(reason Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, reason)
}

func (s *seen) Served(e Exchange) { s.served <- e }

// front is a guard that serves, and what it was told to guard.
type front struct {
	*Guard
	t    *testing.T
	url  string
	seen *seen
	logs *lockedBuffer
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// serve has a guard serve on a loopback address, wherever its configuration says
// that it listens.
func serve(t *testing.T, conf *config.Config, next http.HandlerFunc, with ...func(*Guard)) *front {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, listener, conf, next, with...)
}

// serveOn is serve on a listener.
func serveOn(t *testing.T, listener net.Listener, conf *config.Config, next http.HandlerFunc, with ...func(*Guard)) *front {
	t.Helper()
	f := &front{t: t, seen: newSeen(), logs: &lockedBuffer{}}
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: f.logs})
	var err error
	if f.Guard, err = New(conf, next, f.seen, log); err != nil {
		t.Fatal(err)
	}
	for _, change := range with {
		change(f.Guard)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := f.Serve(listener); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		f.Shutdown(ctx)
		serving.Wait()
	})
	f.url = f.Scheme() + "://" + listener.Addr().String()
	return f
}

// response is an answer without its body.
type response struct {
	StatusCode int
	Status     string
	Header     http.Header
}

// ask makes a request; header are pairs, of which Host is the request's own.
func (f *front) ask(method, path string, body io.Reader, header ...string) (response, string) {
	f.t.Helper()
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return response{got.StatusCode, got.Status, got.Header}, string(text)
}

func whoCalls(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "caller %q", caller.FromContext(r.Context()).Name)
}

func TestHostAndOriginAreCheckedOnEveryMethod(t *testing.T) {
	loopback := conf("127.0.0.1:0")
	exposed := conf("0.0.0.0:0", tokenOf("alice", aliceToken, everything()))
	for _, c := range []*config.Config{loopback, exposed} {
		c.Host.Gateway.Hosts = []string{"mcp.example.org"}
		c.Host.Gateway.Origins = []string{"https://app.example.org"}
	}
	fronts := map[string]*front{"loopback": serve(t, loopback, whoCalls), "exposed": serve(t, exposed, whoCalls)}
	tests := []struct {
		name              string
		host              string
		origins           []string
		loopback, exposed int
	}{
		{"a program", "localhost:7433", nil, 200, 200},
		{"a loopback address", "[::1]:7433", nil, 200, 200},
		{"a configured name", "MCP.example.org", nil, 200, 200},
		{"a configured page", "localhost", []string{"https://app.example.org"}, 200, 200},
		{"an address of the network", "192.0.2.1:7433", nil, 403, 200},
		{"a page of this machine", "localhost", []string{"http://localhost:6274"}, 200, 403},
		{"a rebound name", "evil.example:7433", nil, 403, 403},
		{"a name that ends like a configured one", "evil-mcp.example.org", nil, 403, 403},
		{"a foreign page", "localhost", []string{"https://evil.example"}, 403, 403},
		{"a configured page by another scheme", "localhost", []string{"http://app.example.org"}, 403, 403},
		{"a null origin", "localhost", []string{"null"}, 403, 403},
		{"an empty origin", "localhost", []string{""}, 403, 403},
		{"two origins", "localhost", []string{"https://app.example.org", "https://evil.example"}, 403, 403},
		{"the same origin twice", "localhost", []string{"https://app.example.org", "https://app.example.org"}, 403, 403},
	}
	for _, test := range tests {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS", "PUT"} {
			for name, want := range map[string]int{"loopback": test.loopback, "exposed": test.exposed} {
				header := []string{"Host", test.host, "Authorization", "Bearer " + aliceToken}
				for _, origin := range test.origins {
					header = append(header, "Origin", origin)
				}
				if response, body := fronts[name].ask(method, "/mcp", nil, header...); response.StatusCode != want {
					t.Errorf("%s, %s, %s: status %d, want %d: %s", test.name, method, name, response.StatusCode, want, body)
				}
			}
		}
	}
}

func TestBrowserOfAConfiguredPageMayReadAnswers(t *testing.T) {
	c := conf("127.0.0.1:0", tokenOf("alice", aliceToken, everything()))
	c.Host.Gateway.Origins = []string{"https://app.example.org"}
	f := serve(t, c, whoCalls)
	preflight, _ := f.ask("OPTIONS", "/mcp", nil, "Origin", "https://app.example.org",
		"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,mcp-session-id")
	if preflight.StatusCode != 204 || preflight.Header.Get("Access-Control-Allow-Headers") != "authorization,mcp-session-id" {
		t.Errorf("the preflight is answered by %s, %v", preflight.Status, preflight.Header)
	}
	for _, header := range [][]string{nil, {"Authorization", "Bearer " + aliceToken}} {
		response, _ := f.ask("POST", "/mcp", nil, append(header, "Origin", "https://app.example.org")...)
		if got := response.Header.Get("Access-Control-Allow-Origin"); got != "https://app.example.org" {
			t.Errorf("%s: allowed is %q", response.Status, got)
		}
	}
	page, _ := f.ask("POST", "/mcp", nil, "Origin", "http://localhost:1", "Authorization", "Bearer "+aliceToken)
	if got := page.Header.Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("a page that is not configured is allowed: %q", got)
	}
}

func TestTokens(t *testing.T) {
	tokens := []config.Token{tokenOf("alice", aliceToken, everything()), tokenOf("bob", bobToken, everything())}
	tests := []struct {
		name   string
		front  *front
		path   string
		header []string
		want   int
		says   string
	}{
		{"none is needed on loopback", serve(t, conf("localhost:0"), whoCalls), "/mcp", nil, 200, `caller ""`},
		{"the first", serve(t, conf("127.0.0.1:0", tokens...), whoCalls), "/mcp", []string{"Authorization", "Bearer " + aliceToken}, 200, `caller "alice"`},
		{"the second", nil, "/mcp/clock", []string{"Authorization", "bearer  " + bobToken}, 200, `caller "bob"`},
		{"no token", nil, "/mcp", nil, 401, `Bearer realm="plughost"`},
		{"no token, metrics", nil, "/metrics", nil, 401, `Bearer realm="plughost"`},
		{"no token, what is not there", nil, "/nope", nil, 401, `Bearer realm="plughost"`},
		{"no token, health", nil, "/healthz", nil, 200, "caller"},
		{"no token, readiness", nil, "/readyz", nil, 200, "caller"},
		{"almost health", nil, "/healthz/x", nil, 401, `Bearer realm="plughost"`},
		{"a wrong token", nil, "/mcp", []string{"Authorization", "Bearer " + aliceToken + "x"}, 401, "invalid_token"},
		{"an empty token", nil, "/mcp", []string{"Authorization", "Bearer "}, 401, "invalid_token"},
		{"another scheme", nil, "/mcp", []string{"Authorization", "Basic " + aliceToken}, 401, "invalid_token"},
		{"two headers", nil, "/mcp", []string{"Authorization", "Bearer " + aliceToken, "Authorization", "Bearer " + bobToken}, 401, "invalid_token"},
		{"in the query", nil, "/mcp?access_token=" + aliceToken, nil, 401, "Bearer"},
		{"off loopback, and a reload took all", serve(t, conf("0.0.0.0:0"), whoCalls), "/mcp", nil, 401, "Bearer"},
	}
	var before *front
	for _, test := range tests {
		if test.front != nil {
			before = test.front
		}
		response, body := before.ask("POST", test.path, strings.NewReader("{}"), test.header...)
		if text := body + response.Header.Get("WWW-Authenticate"); response.StatusCode != test.want || !strings.Contains(text, test.says) {
			t.Errorf("%s: status %d, want %d; %q", test.name, response.StatusCode, test.want, text)
		}
		if logs := before.logs.String(); strings.Contains(logs, aliceToken) || strings.Contains(logs, bobToken) {
			t.Errorf("%s: a token is in the log: %s", test.name, logs)
		}
	}
}

// A token is rotated, or taken away, while its bearer listens and calls.
func TestTokensFollowAReload(t *testing.T) {
	listening, calling, finish := make(chan struct{}), make(chan struct{}), make(chan struct{})
	f := serve(t, conf("127.0.0.1:0", tokenOf("alice", aliceToken, everything()), tokenOf("bob", bobToken, everything())),
		func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/listen":
				close(listening)
				<-r.Context().Done()
			case "/call":
				close(calling)
				select {
				case <-finish:
				case <-r.Context().Done():
					t.Error("a call was cut off")
				}
			}
			whoCalls(w, r)
		})
	var asking sync.WaitGroup
	ask := func(method, path string) {
		asking.Go(func() {
			if response, body := f.ask(method, path, nil, "Authorization", "Bearer "+aliceToken); response.StatusCode != 200 {
				t.Errorf("%s: %s", response.Status, body)
			}
		})
	}
	ask("GET", "/listen")
	ask("POST", "/call")
	<-listening
	<-calling
	changed := f.Configure(conf("127.0.0.1:0", tokenOf("alice", aliceToken+"-new", everything()), tokenOf("bob", bobToken, everything())))
	if len(changed) != 1 || changed[0].Name != "alice" || !changed[0].Service("clock") {
		t.Errorf("changed are %+v", changed)
	}
	if e := <-f.seen.served; e.Code != 200 {
		t.Errorf("who listened: %+v", e)
	}
	for secret, want := range map[string]int{aliceToken: 401, aliceToken + "-new": 200, bobToken: 200} {
		if response, _ := f.ask("POST", "/mcp", nil, "Authorization", "Bearer "+secret); response.StatusCode != want {
			t.Errorf("%s: status %d, want %d", secret, response.StatusCode, want)
		}
	}
	close(finish)
	asking.Wait()
	changed = f.Configure(conf("127.0.0.1:0", tokenOf("bob", bobToken, everything())))
	if len(changed) != 1 || changed[0].Name != "alice" || changed[0].Service("clock") || changed[0].Agent("planner") {
		t.Errorf("after one is gone changed are %+v", changed)
	}
}

// Who listened while no token was needed does not go on to when one is.
func TestFirstTokenCutsOffWhoListensWithoutOne(t *testing.T) {
	listening := make(chan struct{})
	f := serve(t, conf("127.0.0.1:0"), func(_ http.ResponseWriter, r *http.Request) {
		close(listening)
		<-r.Context().Done()
	})
	var asking sync.WaitGroup
	asking.Go(func() { f.ask("GET", "/mcp", nil) })
	<-listening
	changed := f.Configure(conf("127.0.0.1:0", tokenOf("alice", aliceToken, everything())))
	asking.Wait()
	if len(changed) != 1 || changed[0].Name != "" || changed[0].Service("clock") {
		t.Errorf("changed are %+v", changed)
	}
}

func TestTheOwnerNeedsNoToken(t *testing.T) {
	f := serve(t, conf("0.0.0.0:0", tokenOf("alice", aliceToken, config.Access{})), func(w http.ResponseWriter, r *http.Request) {
		if c := caller.FromContext(r.Context()); c.Restricted() {
			t.Errorf("the owner is %+v", c)
		}
		whoCalls(w, r)
	})
	f.server.Handler = f.Owner()
	if response, body := f.ask("POST", "/mcp", nil, "Host", "plughost"); body != `caller "(owner)"` {
		t.Errorf("%s: %s", response.Status, body)
	}
}

func TestBodyIsBounded(t *testing.T) {
	f := serve(t, conf("127.0.0.1:0"), func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, "cannot read it", http.StatusBadRequest)
		}
	})
	for name, body := range map[string]io.Reader{
		"said beforehand": strings.NewReader(strings.Repeat("x", 1001)),
		"not said":        io.MultiReader(strings.NewReader(strings.Repeat("x", 1001))),
	} {
		if response, text := f.ask("POST", "/mcp", body); response.StatusCode != 413 {
			t.Errorf("%s: status %d: %s", name, response.StatusCode, text)
		}
	}
	for _, body := range []io.Reader{strings.NewReader(strings.Repeat("x", 1000)), io.MultiReader(strings.NewReader("x")), nil} {
		if response, text := f.ask("POST", "/mcp", body); response.StatusCode != 200 {
			t.Errorf("status %d: %s", response.StatusCode, text)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), "POST", f.url+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Long", strings.Repeat("x", 20_000))
	// Of the rest nothing is read, so the client may find the connection reset.
	if response, err := http.DefaultClient.Do(request); err == nil {
		_ = response.Body.Close()
		if response.StatusCode != 431 {
			t.Errorf("long headers: status %d", response.StatusCode)
		}
	}
}

// One caller who asks for too much at once holds up no other.
func TestRequestsInFlightAreBoundedByCaller(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	f := serve(t, conf("127.0.0.1:0", tokenOf("alice", aliceToken, everything()), tokenOf("bob", bobToken, everything())),
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				began <- struct{}{}
				<-finish
			}
			whoCalls(w, r)
		})
	var slow sync.WaitGroup
	for _, method := range []string{"POST", "POST", "GET", "GET"} {
		slow.Go(func() { f.ask(method, "/slow", nil, "Authorization", "Bearer "+aliceToken) })
		<-began
	}
	for _, method := range []string{"POST", "GET"} {
		response, body := f.ask(method, "/mcp", nil, "Authorization", "Bearer "+aliceToken)
		if response.StatusCode != 429 || response.Header.Get("Retry-After") == "" {
			t.Errorf("one %s more: status %d, %v: %s", method, response.StatusCode, response.Header, body)
		}
		if response, body := f.ask(method, "/mcp", nil, "Authorization", "Bearer "+bobToken); response.StatusCode != 200 {
			t.Errorf("another caller: status %d: %s", response.StatusCode, body)
		}
	}
	close(finish)
	slow.Wait()
	for range 4 + 2 { // the slow ones and those of the other caller
		<-f.seen.served
	}
	for range 10 {
		if response, body := f.ask("POST", "/mcp", nil, "Authorization", "Bearer "+aliceToken); response.StatusCode != 200 {
			t.Errorf("afterwards: status %d: %s", response.StatusCode, body)
		}
	}
	if len(f.open.callers) > 0 {
		t.Errorf("callers are remembered: %v", f.open.callers)
	}
}

func TestRequestIDs(t *testing.T) {
	f := serve(t, conf("127.0.0.1:0"), func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Request-Id"))
	})
	tests := []struct {
		name  string
		given []string
		kept  bool
	}{
		{"a client's", []string{"a-b_c.d:1/2+3="}, true},
		{"none", nil, false},
		{"an empty one", []string{""}, false},
		{"two", []string{"a", "b"}, false},
		{"one that would break a line", []string{"a\tlevel=error"}, false},
		{"one beyond ASCII", []string{"é"}, false},
		{"a long one", []string{strings.Repeat("x", 129)}, false},
	}
	ids := make(map[string]bool)
	for _, test := range tests {
		var header []string
		for _, id := range test.given {
			header = append(header, "X-Request-Id", id)
		}
		response, passed := f.ask("POST", "/mcp", nil, header...)
		returned := response.Header.Values("X-Request-Id")
		if len(returned) != 1 || returned[0] != passed || passed == "" || ids[passed] {
			t.Errorf("%s: passed on is %q, returned %q", test.name, passed, returned)
		}
		if kept := len(test.given) > 0 && passed == test.given[0]; kept != test.kept {
			t.Errorf("%s: it became %q", test.name, passed)
		}
		ids[passed] = true
		<-f.seen.served
		if !strings.Contains(f.logs.String(), passed) {
			t.Errorf("%s: %s is not in the log", test.name, passed)
		}
	}
}

func TestExchangesAreToldByService(t *testing.T) {
	f := serve(t, conf("127.0.0.1:0"), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, "four", http.StatusTeapot)
	})
	for path, want := range map[string]config.Ref{
		"/mcp":                {Kind: config.KindMCP},
		"/mcp/clock":          {Kind: config.KindMCP, Name: "clock"},
		"/mcp/made-up":        {Kind: config.KindMCP},
		"/a2a/made-up/x":      {Kind: config.KindAgent},
		"/metrics":            {},
		"/mcp/clock/whatever": {Kind: config.KindMCP, Name: "clock"},
	} {
		f.ask("POST", path, strings.NewReader("abc"))
		e := <-f.seen.served
		if e.Took <= 0 {
			t.Errorf("%s took %v", path, e.Took)
		}
		e.Took = 0
		if e != (Exchange{Service: want, Code: 418, Received: 3, Sent: 5}) {
			t.Errorf("%s: %+v", path, e)
		}
	}
}

// Nothing that bounds what a client may take ends a stream on which nothing is
// said for long: what is written at last arrives.
func TestStreamsAreFlushedEventByEvent(t *testing.T) {
	next := make(chan string)
	f := serve(t, conf("127.0.0.1:0"), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		for event := range next {
			_, _ = io.WriteString(w, event+"\n")
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		}
	})
	request, err := http.NewRequestWithContext(t.Context(), "POST", f.url+"/mcp", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { next <- "first" }()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for _, event := range []string{"first", "second", "third"} {
		if event != "first" {
			next <- event
		}
		if !lines.Scan() || lines.Text() != event {
			t.Fatalf("got %q, want %q: %v", lines.Text(), event, lines.Err())
		}
	}
	close(next)
}

func TestCertificateIsReadAgainWhenItsFilesChange(t *testing.T) {
	dir := t.TempDir()
	files := config.TLS{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	roots := x509.NewCertPool()
	writePair(t, files, 1, roots)
	c := conf("127.0.0.1:0")
	c.Host.Gateway.TLS = files
	f := serve(t, c, whoCalls)
	if f.Scheme() != "https" {
		t.Errorf("the scheme is %s", f.Scheme())
	}
	serial := func(versions ...uint16) int64 {
		t.Helper()
		conf := &tls.Config{RootCAs: roots, ServerName: "localhost"}
		if len(versions) > 0 {
			conf.MaxVersion = versions[0]
		}
		conn, err := tls.Dial("tcp", strings.TrimPrefix(f.url, "https://"), conf)
		if err != nil {
			t.Log(err)
			return 0
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := serial(); got != 1 {
		t.Errorf("the certificate is %d", got)
	}
	if got := serial(tls.VersionTLS11); got != 0 {
		t.Errorf("TLS 1.1 is spoken")
	}
	writePair(t, files, 2, roots)
	if got := serial(); got != 2 {
		t.Errorf("after a renewal the certificate is %d", got)
	}
	if err := os.WriteFile(files.Certificate, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != 2 {
		t.Errorf("while the files cannot be used the certificate is %d", got)
	}
	if !strings.Contains(f.logs.String(), "goes on with the certificate") {
		t.Errorf("the log says %s", f.logs)
	}
	files = config.TLS{Certificate: filepath.Join(dir, "other.pem"), Key: filepath.Join(dir, "other.key")}
	writePair(t, files, 3, roots)
	c.Host.Gateway.TLS = files
	f.Configure(c)
	if got := serial(); got != 3 {
		t.Errorf("after a reload the certificate is %d", got)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	response, err := client.Post(f.url+"/mcp", "", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.ProtoMajor != 2 || response.StatusCode != 200 {
		t.Errorf("the answer is %s %s", response.Proto, response.Status)
	}
}

// Who was let pass just before a reload begins to listen just after it.
func TestListenerWhoseTokenWasTakenAwayBeforeItBeganIsEnded(t *testing.T) {
	f := serve(t, conf("127.0.0.1:0", tokenOf("alice", aliceToken, everything())), func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	})
	before := f.settings.Load()
	f.Configure(conf("127.0.0.1:0", tokenOf("bob", bobToken, everything())))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/mcp", nil)
	request.Header.Set("Accept", "text/event-stream")
	f.serve(httptest.NewRecorder(), request, before, before.tokens[0].caller)
	if ctx.Err() != nil {
		t.Error("it listens on")
	}
}

// As when a renewed key may be read only some time after it was written, which no
// time of the file tells.
func TestCertificateThatCouldNotBeReadIsTriedAgain(t *testing.T) {
	dir, roots := t.TempDir(), x509.NewCertPool()
	files := config.TLS{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	writePair(t, files, 1, roots)
	var logged bytes.Buffer
	pair, err := newKeyPair(files, hclog.New(&hclog.LoggerOptions{Output: &logged}))
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, want int64) {
		t.Helper()
		if got, err := pair.get(nil); err != nil || got.Leaf.SerialNumber.Int64() != want {
			t.Errorf("%s the certificate is %d (%v), want %d", when, got.Leaf.SerialNumber, err, want)
		}
	}
	writePair(t, files, 2, roots)
	key, err := os.ReadFile(files.Key)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	write := func(content []byte) {
		t.Helper()
		if err := errors.Join(os.WriteFile(files.Key, content, 0o600), os.Chtimes(files.Key, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	write(make([]byte, len(key)))
	expect("while the key cannot be read", 1)
	expect("while the key still cannot be read", 1)
	if said := strings.Count(logged.String(), "goes on with the certificate"); said != 1 {
		t.Errorf("it was said %d times: %s", said, &logged)
	}
	write(key)
	expect("when it can", 2)
}

// writePair writes a certificate for localhost with its key.
func writePair(t *testing.T, files config.TLS, serial int64, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(parsed)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		files.Certificate: {Type: "CERTIFICATE", Bytes: der},
		files.Key:         {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
