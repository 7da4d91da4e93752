package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"

	"github.com/plughost/plughost/host/internal/supervise"
)

// hook receives push notifications.
type hook struct {
	url    string
	events chan a2a.Event
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{events: make(chan a2a.Event, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var notification a2a.StreamResponse
		if err := json.NewDecoder(r.Body).Decode(&notification); err != nil {
			t.Error(err)
			return
		}
		if r.Header.Get("A2A-Notification-Token") != "token" || r.Header.Get("Authorization") != "Bearer credentials" {
			t.Errorf("headers %v", r.Header)
		}
		h.events <- notification.Event
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

func (h *hook) config() *a2a.PushConfig {
	return &a2a.PushConfig{URL: h.url + "/hook", Token: "token", Auth: &a2a.PushAuthInfo{Scheme: "Bearer", Credentials: "credentials"}}
}

// states are those of the notifications until the task is over.
func (h *hook) states() []string {
	var states []string
	for event := range h.events {
		var status a2a.TaskStatus
		switch event := event.(type) {
		case *a2a.Task:
			status = event.Status
		case *a2a.TaskStatusUpdateEvent:
			status = event.Status
		default:
			continue
		}
		if text := strings.TrimPrefix(string(status.State), "TASK_STATE_"); !slices.Contains(states, text) {
			states = append(states, text)
		}
		if status.State.Terminal() {
			break
		}
	}
	return states
}

// newPushFront is a front whose agent's notifications may go to the hook.
func newPushFront(t *testing.T, h *hook) *front {
	t.Helper()
	agent := agentConfig("echo")
	agent.Push.Allow = []string{h.url}
	return newFront(t, agent)
}

func TestTaskIsToldOfByPushNotifications(t *testing.T) {
	for _, b := range bindings {
		for _, stream := range []bool{false, true} {
			t.Run(b.String()+map[bool]string{true: " stream"}[stream], func(t *testing.T) {
				h := newHook(t)
				f := newPushFront(t, h)
				_, echo := f.busyAgent()
				client := f.dialBy("echo", b.protocol, b.version)
				request := say("hello")
				request.Config = &a2a.SendMessageConfig{ReturnImmediately: true, PushConfig: h.config()}
				if stream {
					for _, err := range client.SendStreamingMessage(t.Context(), request) {
						if err != nil {
							t.Fatal(err)
						}
						break // the client does not stay
					}
				} else if _, err := client.SendMessage(t.Context(), request); err != nil {
					t.Fatal(err)
				}
				<-echo.begun
				close(echo.end)
				if states := h.states(); states[len(states)-1] != "COMPLETED" {
					t.Errorf("states %q", states)
				}
			})
		}
	}
}

func TestPushConfigsAreTheGateways(t *testing.T) {
	for _, b := range bindings {
		t.Run(b.String(), func(t *testing.T) {
			h := newHook(t)
			f := newPushFront(t, h)
			agent, _ := f.busyAgent()
			client := f.dialBy("echo", b.protocol, b.version)
			request := say("hello")
			request.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
			result, err := f.dial("echo").SendMessage(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			task := result.TaskInfo().TaskID
			given := h.config()
			given.TaskID, given.ID = task, "mine"
			taken, err := client.CreateTaskPushConfig(t.Context(), given)
			if err != nil || taken.ID != "mine" {
				t.Fatalf("taken %+v, error %v", taken, err)
			}
			got, err := client.GetTaskPushConfig(t.Context(), &a2a.GetTaskPushConfigRequest{TaskID: task, ID: "mine"})
			if err != nil || got.URL != given.URL {
				t.Errorf("got %+v, error %v", got, err)
			}
			listed, err := client.ListTaskPushConfigs(t.Context(), &a2a.ListTaskPushConfigRequest{TaskID: task})
			if err != nil || len(listed) != 1 {
				t.Errorf("listed %+v, error %v", listed, err)
			}
			agent.die()
			if states := h.states(); states[len(states)-1] != "FAILED" {
				t.Errorf("states %q", states)
			}
		})
	}
}

func TestPushConfigIsDeleted(t *testing.T) {
	h := newHook(t)
	f := newPushFront(t, h)
	f.busyAgent()
	client := f.dial("echo")
	request := say("hello")
	request.Config = &a2a.SendMessageConfig{ReturnImmediately: true, PushConfig: h.config()}
	result, err := client.SendMessage(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	task := result.TaskInfo().TaskID
	listed, err := client.ListTaskPushConfigs(t.Context(), &a2a.ListTaskPushConfigRequest{TaskID: task})
	if err != nil || len(listed) != 1 {
		t.Fatalf("listed %+v, error %v", listed, err)
	}
	if err := client.DeleteTaskPushConfig(t.Context(), &a2a.DeleteTaskPushConfigRequest{TaskID: task, ID: listed[0].ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.GetTaskPushConfig(t.Context(), &a2a.GetTaskPushConfigRequest{TaskID: task, ID: listed[0].ID}); err == nil {
		t.Error("it is still there")
	}
}

func TestPushNotificationsGoOnlyWhereTheyMay(t *testing.T) {
	h := newHook(t)
	silent := agentConfig("silent")
	elsewhere := agentConfig("elsewhere")
	elsewhere.Push.Allow = []string{"https://hooks.example.org"}
	f := newFront(t, silent, elsewhere)
	for name, want := range map[string]string{"silent": "not supported", "elsewhere": "has not allowed it"} {
		f.readyAgent(name, newFakeAgent(t, card(), &echoAgent{}))
		got, err := agentcard.DefaultResolver.Resolve(t.Context(), f.url+"/a2a/"+name)
		if err != nil || got.Capabilities.PushNotifications != (name == "elsewhere") {
			t.Errorf("%s: card %+v, error %v", name, got, err)
		}
		client := f.dial(name)
		request := say("hello")
		request.Config = &a2a.SendMessageConfig{PushConfig: h.config()}
		if _, err := client.SendMessage(t.Context(), request); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: message: error %v", name, err)
		}
		for _, err := range client.SendStreamingMessage(t.Context(), request) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: stream: error %v", name, err)
			}
		}
		given := h.config()
		given.TaskID = "1"
		if _, err := client.CreateTaskPushConfig(t.Context(), given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: configuration: error %v", name, err)
		}
	}
	f.enterAgent("silent", supervise.Stopped, "")
}
