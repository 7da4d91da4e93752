package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/supervise"
)

// binding is one way to speak with an agent.
type binding struct {
	protocol a2a.TransportProtocol
	version  a2a.ProtocolVersion
}

var bindings = []binding{
	{a2a.TransportProtocolJSONRPC, a2a.Version},
	{a2a.TransportProtocolHTTPJSON, a2a.Version},
	{a2a.TransportProtocolJSONRPC, a2av0.Version},
	{a2a.TransportProtocolHTTPJSON, a2av0.Version},
}

func (b binding) String() string { return string(b.protocol) + " " + string(b.version) }

func TestEveryBindingOfEveryVersion(t *testing.T) {
	for _, b := range bindings {
		t.Run(b.String(), func(t *testing.T) {
			f := newFront(t, agentConfig("echo"))
			f.readyAgent("echo", newFakeAgent(t, card(), &echoAgent{}))
			client := f.dialBy("echo", b.protocol, b.version)
			result, err := client.SendMessage(t.Context(), say("hello"))
			if err != nil {
				t.Fatal(err)
			}
			task, ok := result.(*a2a.Task)
			if !ok || task.Status.State != a2a.TaskStateCompleted || task.Artifacts[0].Parts[0].Text() != "hello" {
				t.Fatalf("result %+v", result)
			}
			got, err := client.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID})
			if err != nil || got.ID != task.ID {
				t.Errorf("task %+v, error %v", got, err)
			}
			if _, err := client.GetTask(t.Context(), &a2a.GetTaskRequest{ID: "unknown"}); err == nil {
				t.Errorf("unknown task: error %v", err)
			}
			if _, err := client.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID}); err == nil {
				t.Error("a task that is over was canceled")
			}
			if b.version == a2a.Version {
				list, err := client.ListTasks(t.Context(), &a2a.ListTasksRequest{})
				if err != nil || len(list.Tasks) != 1 || list.Tasks[0].ID != task.ID {
					t.Errorf("tasks %+v, error %v", list, err)
				}
			}
			var last a2a.Event
			for event, err := range client.SendStreamingMessage(t.Context(), say("hello")) {
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

func TestTaskIsFollowedAndCanceledByAnyBinding(t *testing.T) {
	for _, b := range bindings {
		t.Run(b.String(), func(t *testing.T) {
			f := newFront(t, agentConfig("echo"))
			echo := &echoAgent{begun: make(chan struct{}, 1), end: make(chan struct{})}
			f.readyAgent("echo", newFakeAgent(t, card(), echo))
			request := say("hello")
			request.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
			result, err := f.dial("echo").SendMessage(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			task := result.(*a2a.Task)
			client := f.dialBy("echo", b.protocol, b.version)
			var state a2a.TaskState
			for event, err := range client.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: task.ID}) {
				if err != nil {
					t.Fatal(err)
				}
				switch event := event.(type) {
				case *a2a.Task: // what it is when the subscription begins
					if _, err := f.dial("echo").CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: task.ID}); err != nil {
						t.Fatal(err)
					}
				case *a2a.TaskStatusUpdateEvent:
					state = event.Status.State
				}
			}
			if state != a2a.TaskStateCanceled {
				t.Errorf("the task was last %s", state)
			}
		})
	}
}

func TestVersionOfARequestDecides(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	f.readyAgent("echo", newFakeAgent(t, card(), &echoAgent{}))
	const sendLegacy = `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}}}`
	for _, test := range []struct {
		name, version, body string
		code                int
	}{
		{"1.0", "1.0", sendHi, 0},
		{"a later 1", "1.7", sendHi, 0},
		{"0.3", "0.3", sendLegacy, 0},
		{"none, with a method of 1.0", "", sendHi, 0},
		{"none, with a method of 0.3", "", sendLegacy, 0},
		{"1.0 with a method of 0.3", "1.0", sendLegacy, -32601},
		{"0.3 with a method of 1.0", "0.3", sendHi, -32601},
		{"one that is not known", "2.0", sendHi, -32009},
		{"none, and no method", "", `{"jsonrpc":"2.0","id":1}`, -32600},
		{"none, and no JSON", "", `{`, -32700},
	} {
		t.Run(test.name, func(t *testing.T) {
			if code, message := rpc(t, f.url+"/a2a/echo", map[string]string{a2a.SvcParamVersion: test.version}, test.body); code != test.code {
				t.Errorf("code %d, message %q", code, message)
			}
		})
	}
}

func TestCatalogueHasAllAgents(t *testing.T) {
	f := newFront(t, agentConfig("ready"), agentConfig("broken"), agentConfig("new"), mcpConfig("tool"))
	f.readyAgent("ready", newFakeAgent(t, card(), &echoAgent{}))
	f.readyAgent("broken", newFakeAgent(t, card(), &echoAgent{}))
	f.enterAgent("broken", supervise.Failed, "gave up")
	body := f.get("/a2a/", http.StatusOK)
	var catalogue struct {
		Agents []struct {
			Name, URL, CardURL, Reason string
			Ready                      bool
			Card                       *a2a.AgentCard
		}
	}
	if err := json.Unmarshal(body, &catalogue); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if len(catalogue.Agents) != 3 {
		t.Fatalf("catalogue %s", body)
	}
	ready, broken, fresh := catalogue.Agents[0], catalogue.Agents[1], catalogue.Agents[2]
	if url := f.url + "/a2a/ready"; ready.Name != "ready" || !ready.Ready || ready.Reason != "" || ready.URL != url || ready.Card.SupportedInterfaces[0].URL != url {
		t.Errorf("one that is ready: %+v", ready)
	}
	if broken.Ready || !strings.Contains(broken.Reason, "gave up") || broken.Card == nil {
		t.Errorf("one that has failed: %+v", broken)
	}
	if fresh.Ready || fresh.Reason == "" || fresh.Card != nil {
		t.Errorf("one that was never ready: %+v", fresh)
	}
	if got := f.get(strings.TrimPrefix(ready.CardURL, f.url), http.StatusOK); !bytes.Contains(got, []byte(`"protocolVersion": "0.3"`)) {
		t.Errorf("no card for clients of 0.3: %s", got)
	}
	f.get("/a2a/none", http.StatusNotFound)
}

// get returns the body of an answer, whose status must be as wanted.
func (f *front) get(path string, status int) []byte {
	f.t.Helper()
	response, err := http.Get(f.url + path)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	if response.StatusCode != status {
		f.t.Errorf("GET %s: status %s: %s", path, response.Status, body)
	}
	return body
}

func TestCardFollowsTheHostThatTheClientWrote(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	f.readyAgent("echo", newFakeAgent(t, card(), &echoAgent{}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+"/a2a/echo/.well-known/agent-card.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "localhost:1234"
	request.Header.Set("X-Forwarded-Host", "evil.example")
	request.Header.Set("X-Forwarded-Proto", "https")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got a2a.AgentCard
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if url := got.SupportedInterfaces[0].URL; url != "http://localhost:1234/a2a/echo" {
		t.Errorf("URL %s", url)
	}
}

func TestCardHasTheConfiguredURL(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	f.readyAgent("echo", newFakeAgent(t, card(), &echoAgent{}))
	f.SetURL("https://agents.example.org")
	for _, path := range []string{"/a2a/echo/.well-known/agent-card.json", "/a2a/"} {
		if got := f.get(path, http.StatusOK); !bytes.Contains(got, []byte("https://agents.example.org/a2a/echo")) || bytes.Contains(got, []byte(f.url)) {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestCardSaysThatATokenIsNeeded(t *testing.T) {
	f := newFront(t, agentConfig("echo"))
	own := card()
	own.SecuritySchemes = a2a.NamedSecuritySchemes{"inside": a2a.HTTPAuthSecurityScheme{Scheme: "Basic"}}
	f.readyAgent("echo", newFakeAgent(t, own, &echoAgent{}))
	handler := f.Handler()
	for name, schemes := range map[string]int{"alice": 1, caller.Owner: 0, "": 0} {
		request := httptest.NewRequestWithContext(caller.NewContext(t.Context(), caller.Caller{Name: name}),
			http.MethodGet, "/a2a/echo/.well-known/agent-card.json", nil)
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		var got a2a.AgentCard
		if err := json.Unmarshal(recorder.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.SecuritySchemes) != schemes || len(got.SecurityRequirements) != schemes {
			t.Errorf("%q sees the schemes %v, and %v of them required", name, got.SecuritySchemes, got.SecurityRequirements)
		}
	}
}
