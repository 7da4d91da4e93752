//go:build unix

package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

// modelKey is the key of the model's API, which nothing may show.
const modelKey = "sk-canary-5678"

// aModel is the server of a model that repeats the question. It answers when it
// is told to, if the question is to wait.
type aModel struct {
	*httptest.Server
	asked   chan struct{} // sent to when it waits
	release chan struct{}
}

func startModel(t *testing.T) *aModel {
	t.Helper()
	m := &aModel{asked: make(chan struct{}, 10), release: make(chan struct{})}
	m.Server = httptest.NewServer(http.HandlerFunc(m.answer))
	t.Cleanup(m.Close)
	return m
}

func (m *aModel) answer(w http.ResponseWriter, r *http.Request) {
	var request struct{ Messages []struct{ Content string } }
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.Header.Get("Authorization") != "Bearer "+modelKey {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	question := request.Messages[len(request.Messages)-1].Content
	if question == "wait" {
		m.asked <- struct{}{}
		select {
		case <-m.release:
		case <-r.Context().Done():
			return
		}
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", "You said: "+question)
}

// host are the options of a host with an agent that asks the model, more in its
// block, and other services, in which GATEWAY is the address of the gateway.
func (m *aModel) host(t *testing.T, more, others string) hostOptions {
	t.Helper()
	gateway := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
	return hostOptions{
		gateway:  gateway,
		stateDir: newStateDir(t),
		env:      []string{"MODEL_KEY=" + modelKey},
		config: writeConfig(t, fmt.Sprintf(`
host {
  listen = %q
}
service "agent" "thinker" {
  command = [%q]
  config {
    model {
      base_url = "%s/v1"
      name     = "parrot"
      api_key  = env("MODEL_KEY")
    }
  }
%s}
service "agent" "assistant" {
  command = [%q]
}
`, gateway, filepath.Join(binaries, "agent-example"), m.URL, more, filepath.Join(binaries, "agent-example"))+
			strings.ReplaceAll(others, "GATEWAY", gateway)),
	}
}

// agent makes an A2A client of an agent.
func (h *host) agent(t *testing.T, name string) *a2aclient.Client {
	t.Helper()
	card, err := agentcard.DefaultResolver.Resolve(t.Context(), h.base+"/a2a/"+name)
	if err != nil {
		t.Fatal(err)
	}
	client, err := a2aclient.NewFromCard(t.Context(), card)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// begin gives an agent a task that waits for the model.
func (m *aModel) begin(t *testing.T, client *a2aclient.Client) a2a.TaskID {
	t.Helper()
	result, err := client.SendMessage(t.Context(), &a2a.SendMessageRequest{
		Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("wait")),
		Config:  &a2a.SendMessageConfig{ReturnImmediately: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-m.asked
	return result.TaskInfo().TaskID
}

func stateOfTask(ctx context.Context, client *a2aclient.Client, id a2a.TaskID) (a2a.TaskState, string) {
	task, err := client.GetTask(ctx, &a2a.GetTaskRequest{ID: id})
	switch {
	case err != nil:
		return "", err.Error()
	case task.Status.Message == nil:
		return task.Status.State, ""
	}
	return task.Status.State, task.Status.Message.Parts[0].Text()
}

func TestAsk(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	h := startHost(t, m.host(t, "", ""))
	h.waitReady()
	ask := func(args ...string) (string, string, int) {
		return plughost(t, append([]string{"ask", "--state-dir", h.stateDir}, args...)...)
	}
	for _, test := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string // what they have
	}{
		{"an answer", []string{"thinker", "hello", "there"}, 0, "You said: hello there\n", ""},
		{"by the full name", []string{"agent.thinker", "hello"}, 0, "You said: hello\n", ""},
		{"an agent that there is not", []string{"thinkr", "hello"}, 1, "", `there is no agent "thinkr": there are thinker, assistant`},
		{"a task that fails", []string{"assistant", "Days until 2026-12-24"}, 1, "", "the task has failed: I need a tool named days_between"},
		{"an agent that asks back", []string{"assistant", "What time is it?"}, 3, "In which city or time zone?\n", "waits for an answer: --task "},
		{"no question", []string{"assistant"}, 2, "", "requires at least 2 arg"},
		{"an empty question", []string{"assistant", " "}, 2, "", "the question is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, code := ask(test.args...)
			if code != test.code || stdout != test.stdout || !strings.Contains(stderr, test.stderr) {
				t.Errorf("status %d, wrote %q and %q", code, stdout, stderr)
			}
		})
	}
	t.Run("as JSON", func(t *testing.T) {
		stdout, stderr, code := ask("--json", "thinker", "hello")
		events := strings.Split(strings.TrimSpace(stdout), "\n")
		var first, last struct {
			Task         *a2a.Task
			StatusUpdate *a2a.TaskStatusUpdateEvent
		}
		if code != 0 || json.Unmarshal([]byte(events[0]), &first) != nil || json.Unmarshal([]byte(events[len(events)-1]), &last) != nil {
			t.Fatalf("status %d, wrote %q and %q", code, stdout, stderr)
		}
		if first.Task == nil || last.StatusUpdate == nil || last.StatusUpdate.Status.State != a2a.TaskStateCompleted {
			t.Errorf("wrote %s", stdout)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		cmd := exec.Command(filepath.Join(binaries, "plughost"), "ask", "--state-dir", h.stateDir, "thinker", "wait")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-m.asked
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(stderr.String(), "interrupted: the task was canceled") {
			t.Errorf("%v, wrote %q", err, stderr.String())
		}
	})
	t.Run("an agent that is stopped", func(t *testing.T) {
		if _, stderr, code := plughost(t, "stop", "--state-dir", h.stateDir, "assistant"); code != 0 {
			t.Fatal(stderr)
		}
		if _, stderr, code := ask("assistant", "hello"); code != 1 || !strings.Contains(stderr, "it is stopped; start it with") {
			t.Errorf("status %d, wrote %q", code, stderr)
		}
	})
	h.stop()
	if _, stderr, code := ask("assistant", "hello"); code != 1 || !strings.Contains(stderr, "no host is running") {
		t.Errorf("without a host: status %d, wrote %q", code, stderr)
	}
	if secret := filesWith(t, h.stateDir, modelKey); len(secret) > 0 {
		t.Errorf("the model's key is in %v", secret)
	}
	if strings.Contains(h.output.String(), modelKey) {
		t.Error("the model's key is in the host's output")
	}
}

func TestTaskOfAnAgentThatIsKilledHasFailed(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	h := startHost(t, m.host(t, "", ""))
	h.waitReady()
	client := h.agent(t, "thinker")
	id := m.begin(t, client)
	killPID(t, h.status()["thinker"].PID)
	eventually(t, "the task has failed", func() bool {
		state, reason := stateOfTask(t.Context(), client, id)
		return state == a2a.TaskStateFailed && strings.Contains(reason, "ended before this task did (signal: killed)")
	})
	h.waitState("thinker", "ready")
	if state, reason := stateOfTask(t.Context(), client, id); state != a2a.TaskStateFailed {
		t.Errorf("when the agent runs again the task is %s: %s", state, reason)
	}
}

func TestKeptAgentGoesOnWithItsTasks(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	opts := m.host(t, keepBody, "")
	h := startHost(t, opts)
	h.waitReady()
	goesOn := m.begin(t, h.agent(t, "thinker"))
	before := h.status()["thinker"]
	h.kill()

	h = startHost(t, opts)
	h.waitReady()
	if after := h.status()["thinker"]; after.PID != before.PID {
		t.Fatalf("the agent has pid %d, and not %d", after.PID, before.PID)
	}
	client := h.agent(t, "thinker")
	if state, why := stateOfTask(t.Context(), client, goesOn); state != a2a.TaskStateWorking {
		t.Errorf("the task is %s: %s", state, why)
	}
	another := m.begin(t, client)
	m.release <- struct{}{}
	m.release <- struct{}{}
	for _, id := range []a2a.TaskID{goesOn, another} {
		eventually(t, "the task is completed", func() bool {
			state, _ := stateOfTask(t.Context(), client, id)
			return state == a2a.TaskStateCompleted
		})
	}
}

func TestRemoteAgent(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	h := startHost(t, m.host(t, "", `
service "agent" "far" {
  url        = "http://GATEWAY/a2a/thinker"
  headers    = { X-Key = "canary" }
  depends_on = [service.agent.thinker]
}
`))
	h.waitReady()
	stdout, stderr, code := plughost(t, "ask", "--state-dir", h.stateDir, "far", "hello")
	if code != 0 || stdout != "You said: hello\n" {
		t.Errorf("status %d, wrote %q and %q", code, stdout, stderr)
	}
	far := h.agent(t, "far")
	id := m.begin(t, far)
	killPID(t, h.status()["thinker"].PID)
	eventually(t, "the task has failed", func() bool {
		state, _ := stateOfTask(t.Context(), far, id)
		return state == a2a.TaskStateFailed
	})
	if secret := filesWith(t, h.stateDir, "canary"); len(secret) > 0 {
		t.Errorf("a header is in %v", secret)
	}
}
