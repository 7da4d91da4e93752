package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sashabaranov/go-openai"

	"github.com/plughost/plughost/shared/agentplugin"
	"github.com/plughost/plughost/shared/pluginconfig"
)

const secret = "sk-canary-1234"

// reply is how the model's server answers one request.
type reply func(w http.ResponseWriter, r *http.Request)

// event sends one event of a stream.
func event(w http.ResponseWriter, data string) {
	fmt.Fprintf(w, "data: %s\n\n", data)
	w.(http.Flusher).Flush()
}

// says is an answer in words, ended for a reason.
func says(finish string, words ...string) reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, word := range words {
			event(w, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q}}]}`, word))
		}
		event(w, fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, finish))
		event(w, "[DONE]")
	}
}

// calls is a tool call, its arguments in two pieces, that took some tokens.
func calls(tokens int, name, arguments string) reply {
	return func(w http.ResponseWriter, _ *http.Request) {
		middle := len(arguments) / 2
		event(w, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call-1","type":"function","function":{"name":%q,"arguments":%q}}]}}]}`, name, arguments[:middle]))
		event(w, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%q}}]}}]}`, arguments[middle:]))
		event(w, `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`)
		event(w, fmt.Sprintf(`{"choices":[],"usage":{"completion_tokens":%d}}`, tokens))
		event(w, "[DONE]")
	}
}

// fails is an error that quotes the request's key.
func fails(code int, headers ...string) reply {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"error":{"message":"refused: %s","type":"t"}}`, r.Header.Get("Authorization"))
	}
}

// breaksOff is an answer of which only the beginning comes.
func breaksOff(w http.ResponseWriter, _ *http.Request) {
	event(w, `{"choices":[{"index":0,"delta":{"content":"It is "}}]}`)
}

func failsInTheStream(w http.ResponseWriter, _ *http.Request) {
	event(w, `{"choices":[{"index":0,"delta":{"content":"It is "}}]}`)
	event(w, `{"error":{"message":"overloaded","type":"t"}}`)
}

// hangs answers when nobody listens any more.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// chatServer speaks the chat-completions API, one reply after the other; the
// last is repeated.
type chatServer struct {
	*httptest.Server
	mu       sync.Mutex
	replies  []reply
	requests []openai.ChatCompletionRequest
	keys     []string
}

func newChatServer(t *testing.T, replies ...reply) *chatServer {
	t.Helper()
	s := &chatServer{replies: replies}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.Close)
	return s
}

func (s *chatServer) answer(w http.ResponseWriter, r *http.Request) {
	var request openai.ChatCompletionRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.URL.Path != "/v1/chat/completions" {
		http.Error(w, fmt.Sprintf("%s: %v", r.URL, err), http.StatusNotFound)
		return
	}
	s.mu.Lock()
	s.requests = append(s.requests, request)
	s.keys = append(s.keys, r.Header.Get("Authorization"))
	next := s.replies[0]
	if len(s.replies) > 1 {
		s.replies = s.replies[1:]
	}
	s.mu.Unlock()
	next(w, r)
}

// asked is how many requests there were.
func (s *chatServer) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// modelTools are a tool that works and one that does not.
func modelTools(server *mcp.Server) {
	addClock(server, "clock")
	mcp.AddTool(server, &mcp.Tool{Name: "clock__broken"}, func(context.Context, *mcp.CallToolRequest, nowArguments) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("the clock has stopped")
	})
}

// outcome is what came of a question.
type outcome struct {
	state  a2a.TaskState
	reason string   // of a failure
	pieces []string // of the answer
	doing  []string // what the agent said that it does
}

func (o outcome) answer() string { return strings.Join(o.pieces, "") }

// think asks a thinker with the model of a server.
func think(ctx context.Context, t *testing.T, server *chatServer, change func(*modelSettings)) outcome {
	t.Helper()
	s := &settings{Model: &modelSettings{BaseURL: server.URL + "/v1", Name: "small", APIKey: secret}}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(s.Model)
	}
	config := openai.DefaultConfig(secret)
	config.BaseURL = s.Model.BaseURL
	config.HTTPClient = retrying(time.Millisecond)
	thinker := &thinker{
		model: &model{settings: s.Model, client: openai.NewClientWithConfig(config)},
		tools: toolsOf(t, modelTools),
	}
	return outcomeOf(ctx, t, thinker, "What time is it in Tokyo?")
}

// executor is what an agent and a thinker have in common.
type executor interface {
	Execute(ctx context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error]
}

func outcomeOf(ctx context.Context, t *testing.T, executor executor, question string) outcome {
	t.Helper()
	execCtx := &a2asrv.ExecutorContext{TaskID: "task", ContextID: "context", Message: userMessage(question)}
	var o outcome
	for event, err := range executor.Execute(ctx, execCtx) {
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(encoded), secret) {
			t.Errorf("an event has the key: %s", encoded)
		}
		o.add(event)
	}
	return o
}

func (o *outcome) add(event a2a.Event) {
	switch event := event.(type) {
	case *a2a.TaskArtifactUpdateEvent:
		o.pieces = append(o.pieces, event.Artifact.Parts[0].Text())
	case *a2a.TaskStatusUpdateEvent:
		o.state = event.Status.State
		if event.Status.Message == nil {
			return
		}
		text := messageText(event.Status.Message)
		if o.state == a2a.TaskStateFailed {
			o.reason = text
		} else {
			o.doing = append(o.doing, text)
		}
	}
}

func TestModelAnswersPieceByPiece(t *testing.T) {
	server := newChatServer(t, says("stop", "It is ", "late."))
	got := think(t.Context(), t, server, nil)
	if got.state != a2a.TaskStateCompleted || !slices.Equal(got.pieces, []string{"It is ", "late."}) {
		t.Errorf("%+v", got)
	}
	request := server.requests[0]
	if request.Model != "small" || !request.Stream || request.MaxCompletionTokens != defaultMaxTokens || server.keys[0] != "Bearer "+secret {
		t.Errorf("request %+v", request)
	}
	var said []string
	for _, message := range request.Messages {
		said = append(said, message.Role+": "+message.Content)
	}
	if want := []string{"system: " + defaultSystem, "user: What time is it in Tokyo?"}; !slices.Equal(said, want) {
		t.Errorf("messages %q", said)
	}
}

func TestModelCallsTools(t *testing.T) {
	server := newChatServer(t, calls(5, "clock__now", `{"zone":"Asia/Tokyo"}`), says("stop", "It is 21:05."))
	got := think(t.Context(), t, server, nil)
	if got.state != a2a.TaskStateCompleted || got.answer() != "It is 21:05." || !slices.Equal(got.doing, []string{"Calling clock__now."}) {
		t.Errorf("%+v", got)
	}
	var offered []string
	for _, tool := range server.requests[0].Tools {
		offered = append(offered, tool.Function.Name)
	}
	slices.Sort(offered)
	if want := []string{"clock__broken", "clock__convert", "clock__days_between", "clock__now"}; !slices.Equal(offered, want) {
		t.Errorf("offered %q", offered)
	}
	messages := server.requests[1].Messages
	last := messages[len(messages)-1]
	if last.Role != openai.ChatMessageRoleTool || last.ToolCallID != "call-1" || !strings.Contains(last.Content, "2026-03-01T21:05:00+09:00") {
		t.Errorf("the model was told %+v", last)
	}
	if server.requests[1].MaxCompletionTokens != defaultMaxTokens-5 {
		t.Errorf("it may write %d tokens more", server.requests[1].MaxCompletionTokens)
	}
}

func TestModelIsToldWhatGoesWrongWithATool(t *testing.T) {
	for _, test := range []struct{ name, tool, arguments, want string }{
		{"arguments that are no JSON", "clock__now", `{"zone":`, "not a JSON object"},
		{"arguments that are no object", "clock__now", `["zone"]`, "not a JSON object"},
		{"arguments that do not fit", "clock__now", `{"zone":5}`, "zone"},
		{"a tool that fails", "clock__broken", `{"zone":"UTC"}`, "error: the clock has stopped"},
		{"a tool that there is not", "files__delete", `{}`, `there is no tool "files__delete"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newChatServer(t, calls(5, test.tool, test.arguments), says("stop", "I could not."))
			got := think(t.Context(), t, server, nil)
			if got.state != a2a.TaskStateCompleted || got.answer() != "I could not." {
				t.Fatalf("%+v", got)
			}
			messages := server.requests[1].Messages
			if told := messages[len(messages)-1].Content; !strings.Contains(told, test.want) {
				t.Errorf("the model was told %q", told)
			}
		})
	}
}

func TestFaultsOfTheModelsServer(t *testing.T) {
	for _, test := range []struct {
		name     string
		replies  []reply
		reason   string // or empty, if it is answered
		requests int
	}{
		{"too many requests, for a moment", []reply{fails(429, "Retry-After", "0"), says("stop", "Hi.")}, "", 2},
		{"too many requests, for an hour", []reply{fails(429, "Retry-After", "3600")}, "status 429", 1},
		{"an error, once", []reply{fails(500), says("stop", "Hi.")}, "", 2},
		{"errors, again and again", []reply{fails(500)}, "status 500", maxAttempts},
		{"a refused key", []reply{fails(401)}, "status 401: refused: Bearer [the key]", 1},
		{"an answer that breaks off", []reply{breaksOff}, "broke off", 1},
		{"an error in the stream", []reply{failsInTheStream}, "overloaded", 1},
		{"an answer without an end", []reply{func(w http.ResponseWriter, _ *http.Request) { event(w, "[DONE]") }}, "broke off", 1},
		{"no answer at all", []reply{says("stop")}, "gave no answer", 1},
		{"an answer that is no JSON", []reply{func(w http.ResponseWriter, _ *http.Request) { event(w, "{") }}, "cannot be asked", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newChatServer(t, test.replies...)
			got := think(t.Context(), t, server, nil)
			want := a2a.TaskStateCompleted
			if test.reason != "" {
				want = a2a.TaskStateFailed
			}
			if got.state != want || !strings.Contains(got.reason, test.reason) || server.asked() != test.requests {
				t.Errorf("%+v after %d requests", got, server.asked())
			}
		})
	}
}

func TestAnswerIsBounded(t *testing.T) {
	for _, test := range []struct {
		name, reason string
		reply        reply
		change       func(*modelSettings)
		requests     int
	}{
		{"in rounds", "called tools 3 times", calls(1, "clock__now", `{}`), func(s *modelSettings) { s.MaxRounds = 3 }, 3},
		{"in tokens, over all rounds", "used up its 10 tokens", calls(6, "clock__now", `{}`), func(s *modelSettings) { s.MaxTokens = 10 }, 2},
		{"in tokens of one round", "cut off", says("length", "It"), func(s *modelSettings) { s.MaxTokens = 1 }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newChatServer(t, test.reply)
			got := think(t.Context(), t, server, test.change)
			if got.state != a2a.TaskStateFailed || !strings.Contains(got.reason, test.reason) || server.asked() != test.requests {
				t.Errorf("%+v after %d requests", got, server.asked())
			}
		})
	}
}

// silent is a server that never answers.
type silent struct{ asked atomic.Int32 }

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAnswerIsBoundedInTime(t *testing.T) {
	for _, test := range []struct {
		name  string
		tools func(*testing.T) func(context.Context) (*mcp.ClientSession, error)
		asked int32
	}{
		{"of the model", func(t *testing.T) func(context.Context) (*mcp.ClientSession, error) { return toolsOf(t, modelTools) }, 1},
		{"of the tools", func(*testing.T) func(context.Context) (*mcp.ClientSession, error) { return waitForTools }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := &silent{}, retrying(time.Millisecond)
				client.Transport.(*retryablehttp.RoundTripper).Client.HTTPClient.Transport = server
				config := openai.DefaultConfig(secret)
				config.HTTPClient = client
				got := outcomeOf(t.Context(), t, &thinker{
					model: &model{settings: &modelSettings{Timeout: pluginconfig.Duration(time.Minute), MaxRounds: 1}, client: openai.NewClientWithConfig(config)},
					tools: test.tools(t),
				}, "What time is it in Tokyo?")
				if got.state != a2a.TaskStateFailed || got.reason != "the answer was not complete within 1m0s" || server.asked.Load() != test.asked {
					t.Errorf("%+v after %d requests", got, server.asked.Load())
				}
			})
		})
	}
}

func TestCancelEndsTheRequestToTheModel(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	server := newChatServer(t, func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		hangs(w, r)
		close(ended)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if got := think(ctx, t, server, nil); got.state != a2a.TaskStateCanceled {
		t.Errorf("%+v", got)
	}
	<-ended
}

func TestModelWithoutTools(t *testing.T) {
	server := newChatServer(t, says("stop", "Hi."))
	s := &settings{Model: &modelSettings{BaseURL: server.URL + "/v1", Name: "small"}}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	none := func(context.Context) (*mcp.ClientSession, error) { return nil, agentplugin.ErrNoTools }
	got := outcomeOf(t.Context(), t, &thinker{model: newModel(s.Model), tools: none}, "Hello")
	if got.state != a2a.TaskStateCompleted || len(server.requests[0].Tools) > 0 || server.keys[0] != "" {
		t.Errorf("%+v, request %+v", got, server.requests[0])
	}
}

func TestAgentAnswersByItselfWithoutAModel(t *testing.T) {
	agent := newAgent(&settings{})
	if got := outcomeOf(t.Context(), t, agent, "Tell me a joke"); got.state != a2a.TaskStateCompleted || !strings.HasPrefix(got.answer(), "I did not understand") {
		t.Errorf("%+v", got)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for _, test := range []struct {
		name  string
		model modelSettings
		field string
	}{
		{"no URL", modelSettings{Name: "n"}, "base_url"},
		{"no HTTP", modelSettings{Name: "n", BaseURL: "ftp://example.com"}, "base_url"},
		{"no name", modelSettings{BaseURL: "http://127.0.0.1/v1"}, "name"},
		{"a negative timeout", modelSettings{Name: "n", BaseURL: "http://127.0.0.1/v1", Timeout: -1}, "timeout"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var fault *pluginconfig.FieldError
			if err := (&settings{Model: &test.model}).Validate(); !errors.As(err, &fault) || fault.Path[1] != test.field {
				t.Errorf("error %v", err)
			}
		})
	}
	if err := (&settings{}).Validate(); err != nil {
		t.Errorf("no model: %v", err)
	}
}
