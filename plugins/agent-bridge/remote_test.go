package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/a2ahttp"
)

// echo repeats what it is told.
type echo struct{}

func (echo) Execute(_ context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if yield(a2a.NewSubmittedTask(execCtx, execCtx.Message), nil) &&
			yield(a2a.NewArtifactEvent(execCtx, execCtx.Message.Parts...), nil) {
			yield(a2a.NewStatusUpdateEvent(execCtx, a2a.TaskStateCompleted, nil), nil)
		}
	}
}

func (echo) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(func(a2a.Event, error) bool) {}
}

// startAgent starts an agent elsewhere, whose card is what the function makes
// of the whole one, and which wants a token.
func startAgent(t *testing.T, card func(url string, whole *a2a.AgentCard) any) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	url := server.URL + "/agent"
	whole := a2ahttp.Readdress(&a2a.AgentCard{Name: "far", Version: "1"}, url)
	mux.HandleFunc("/agent"+a2asrv.WellKnownAgentCardPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(card(url, whole))
	})
	handler := a2ahttp.Handler(a2asrv.NewHandler(echo{}), func(*http.Request) (*a2a.AgentCard, error) { return whole, nil })
	mux.Handle("/agent/", http.StripPrefix("/agent", handler))
	mux.Handle("/agent", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/"
		handler.ServeHTTP(w, r)
	}))
	return url
}

func start(t *testing.T, url string) (*remote, error) {
	t.Helper()
	r, err := newRemote(url, map[string]string{"Authorization": "Bearer token"}, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop(context.Background()) })
	return r, r.Start()
}

func TestAgentIsSpokenWithByWhatItsCardHas(t *testing.T) {
	only := func(binding a2a.TransportProtocol, version a2a.ProtocolVersion) func(string, *a2a.AgentCard) any {
		return func(url string, whole *a2a.AgentCard) any {
			card := *whole
			card.SupportedInterfaces = []*a2a.AgentInterface{{URL: url, ProtocolBinding: binding, ProtocolVersion: version}}
			return card
		}
	}
	for name, card := range map[string]func(string, *a2a.AgentCard) any{
		"all":               func(_ string, whole *a2a.AgentCard) any { return whole },
		"JSON-RPC of 1.0":   only(a2a.TransportProtocolJSONRPC, a2a.Version),
		"HTTP+JSON of 1.0":  only(a2a.TransportProtocolHTTPJSON, a2a.Version),
		"JSON-RPC of 0.3":   only(a2a.TransportProtocolJSONRPC, a2av0.Version),
		"JSON-RPC of 0.3.0": only(a2a.TransportProtocolJSONRPC, "0.3.0"),
		"HTTP+JSON of 0.3":  only(a2a.TransportProtocolHTTPJSON, a2av0.Version),
		"0.3, and what binding it is": func(url string, _ *a2a.AgentCard) any {
			return map[string]any{"name": "far", "protocolVersion": "0.3.0", "url": url}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := start(t, startAgent(t, card))
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Health(t.Context()); err != nil {
				t.Errorf("health: %v", err)
			}
			var described a2a.AgentCard
			if err := json.Unmarshal(r.describe.GetAgentCard(), &described); err != nil || described.Name != "far" {
				t.Errorf("described by %s, error %v", r.describe.GetAgentCard(), err)
			}
			f := &forward{r}
			message := &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hello"))}
			result, err := f.SendMessage(t.Context(), message)
			if err != nil {
				t.Fatal(err)
			}
			task, ok := result.(*a2a.Task)
			if !ok || task.Artifacts[0].Parts[0].Text() != "hello" {
				t.Fatalf("result %+v", result)
			}
			if got, err := f.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID}); err != nil || got.ID != task.ID {
				t.Errorf("task %+v, error %v", got, err)
			}
			var last a2a.Event
			for event, err := range f.SendStreamingMessage(t.Context(), message) {
				if err != nil {
					t.Fatal(err)
				}
				last = event
			}
			if update, ok := last.(*a2a.TaskStatusUpdateEvent); !ok || update.Status.State != a2a.TaskStateCompleted {
				t.Errorf("the stream ends with %+v", last)
			}
		})
	}
}

func TestAgentThatCannotBeUsedAsItIs(t *testing.T) {
	for _, test := range []struct {
		name, want string
		card       any
	}{
		{"on another server", "names other servers, http://elsewhere.example/agent", &a2a.AgentCard{SupportedInterfaces: []*a2a.AgentInterface{
			{URL: "http://elsewhere.example/agent", ProtocolBinding: a2a.TransportProtocolJSONRPC, ProtocolVersion: a2a.Version},
		}}},
		{"of another version", "no interface of A2A 1.0 or 0.3", &a2a.AgentCard{SupportedInterfaces: []*a2a.AgentInterface{
			{URL: "http://elsewhere.example/agent", ProtocolBinding: a2a.TransportProtocolJSONRPC, ProtocolVersion: "2.0"},
		}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := start(t, startAgent(t, func(string, *a2a.AgentCard) any { return test.card }))
			var exit *shared.ExitError
			if !errors.As(err, &exit) || exit.Status != exitConfig || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestAgentThatRefusesTheHeaders(t *testing.T) {
	url := startAgent(t, func(_ string, whole *a2a.AgentCard) any { return whole })
	r, err := newRemote(url, map[string]string{"Authorization": "Bearer wrong"}, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop(t.Context())
	var exit *shared.ExitError
	if err := r.Start(); !errors.As(err, &exit) || !strings.Contains(err.Error(), "are the headers right?") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("error %v", err)
	}
}

func TestAgentThatIsNotThereYetIsWaitedFor(t *testing.T) {
	for name, before := range map[string]http.HandlerFunc{
		"it starts": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "starting", http.StatusServiceUnavailable)
		},
		"a page is in its place": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>We will be back soon.</html>")
		},
		"half of its card is": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"name":"far","supp`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			var whole *a2a.AgentCard
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked.Add(1) == 1 {
					before(w, r)
					return
				}
				_ = json.NewEncoder(w).Encode(whole)
			}))
			defer server.Close()
			whole = a2ahttp.Readdress(&a2a.AgentCard{Name: "far"}, server.URL)
			if _, err := start(t, server.URL+"/card.json"); err != nil || asked.Load() != 2 {
				t.Errorf("error %v after %d requests", err, asked.Load())
			}
		})
	}
}

func TestHeadersGoToOneServerAlone(t *testing.T) {
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	r, err := newRemote(server.URL, map[string]string{"Authorization": "Bearer token"}, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop(t.Context())
	want := fmt.Sprintf("it leads to %s, which is another server", strings.TrimPrefix(other.URL, "http://"))
	if err := r.Health(t.Context()); err == nil || !strings.Contains(err.Error(), want) || asked.Load() > 0 {
		t.Errorf("error %v, the other server was asked %d times", err, asked.Load())
	}
}
