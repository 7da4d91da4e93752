package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/sashabaranov/go-openai"
)

const (
	// maxAttempts bounds the tries of one request to the model's API.
	maxAttempts = 4
	// minRetryWait and maxRetryWait bound the wait between two of them. A server
	// that asks for more is not asked again.
	minRetryWait = 250 * time.Millisecond
	maxRetryWait = 20 * time.Second
	// maxModelBytes bounds one answer of the API.
	maxModelBytes = 8 << 20
	// maxErrorText bounds what is shown of an error of the API.
	maxErrorText = 400
)

// model asks a model by the chat-completions API.
type model struct {
	settings *modelSettings
	client   *openai.Client
}

func newModel(settings *modelSettings) *model {
	config := openai.DefaultConfig(settings.APIKey)
	config.BaseURL = strings.TrimSuffix(settings.BaseURL, "/")
	config.HTTPClient = retrying(minRetryWait)
	return &model{settings: settings, client: openai.NewClientWithConfig(config)}
}

// retrying makes a client that tries again what is likely to go well then: what
// did not reach the server, was too much for it (429), or was its fault (5xx).
// It waits as long as the server says.
func retrying(minWait time.Duration) *http.Client {
	client := retryablehttp.NewClient()
	client.HTTPClient.Transport = bounded{client.HTTPClient.Transport}
	client.Logger = nil // the key is in the requests
	client.RetryMax = maxAttempts - 1
	client.RetryWaitMin, client.RetryWaitMax = minWait, maxRetryWait
	client.ErrorHandler = retryablehttp.PassthroughErrorHandler
	client.CheckRetry = func(ctx context.Context, response *http.Response, err error) (bool, error) {
		retry, err := retryablehttp.DefaultRetryPolicy(ctx, response, err)
		return retry && client.Backoff(minWait, maxRetryWait, 0, response) <= maxRetryWait, err
	}
	return client.StandardClient()
}

// bounded cuts answers off that are too long.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxModelBytes), response.Body}
	return response, nil
}

// turn is what the model said when it was asked once.
type turn struct {
	text   string
	calls  []openai.ToolCall
	tokens int // that it wrote
	finish openai.FinishReason
}

// errBrokeOff is the error of an answer that came in part.
var errBrokeOff = errors.New("the model's answer broke off")

// ask has the model go on with a conversation. Its text is given to say bit by
// bit; if that returns false nobody is interested any more.
func (m *model) ask(ctx context.Context, messages []openai.ChatCompletionMessage, tools []openai.Tool, maxTokens int, say func(string) bool) (*turn, error) {
	stream, err := m.client.CreateChatCompletionStream(ctx, openai.ChatCompletionRequest{
		Model:               m.settings.Name,
		Messages:            messages,
		Tools:               tools,
		MaxCompletionTokens: maxTokens,
		StreamOptions:       &openai.StreamOptions{IncludeUsage: true},
	})
	if err != nil {
		return nil, m.explain(ctx, err)
	}
	defer stream.Close()
	t := &turn{}
	for {
		chunk, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return t.complete()
		case err != nil:
			return nil, m.explain(ctx, err)
		}
		if text := t.add(chunk); text != "" && !say(text) {
			return nil, context.Canceled
		}
	}
}

// add adds a part of the answer and returns the text in it.
func (t *turn) add(chunk openai.ChatCompletionStreamResponse) string {
	if chunk.Usage != nil {
		t.tokens = chunk.Usage.CompletionTokens
	}
	if len(chunk.Choices) == 0 {
		return ""
	}
	choice := chunk.Choices[0]
	if choice.FinishReason != "" {
		t.finish = choice.FinishReason
	}
	for _, part := range choice.Delta.ToolCalls {
		t.addCall(part)
	}
	t.text += choice.Delta.Content
	return choice.Delta.Content
}

// addCall adds a part of a tool call: the first has its id and name, and all
// have some of the arguments.
func (t *turn) addCall(part openai.ToolCall) {
	index := len(t.calls)
	if part.Index != nil && *part.Index < index {
		index = max(0, *part.Index)
	} else if part.Index == nil && part.ID == "" {
		index = max(0, index-1)
	}
	if index == len(t.calls) {
		t.calls = append(t.calls, openai.ToolCall{Type: openai.ToolTypeFunction})
	}
	call := &t.calls[index]
	call.ID += part.ID
	call.Function.Name += part.Function.Name
	call.Function.Arguments += part.Function.Arguments
}

// complete returns the answer, if all of it came. A server that does not tell
// how many tokens it was is taken to have written one for four bytes.
func (t *turn) complete() (*turn, error) {
	if t.finish == "" {
		return nil, errBrokeOff
	}
	if t.tokens == 0 {
		size := len(t.text)
		for _, call := range t.calls {
			size += len(call.Function.Name) + len(call.Function.Arguments)
		}
		t.tokens = size/4 + 1
	}
	return t, nil
}

// explain says what went wrong with the API. What a server says may hold the
// key that it was given.
func (m *model) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var answered *openai.APIError
	var other *openai.RequestError
	text := err.Error()
	switch {
	case errors.As(err, &answered) && answered.HTTPStatusCode != 0:
		text = fmt.Sprintf("status %d: %s", answered.HTTPStatusCode, answered.Message)
	case errors.As(err, &answered):
		text = answered.Message
	case errors.As(err, &other):
		text = fmt.Sprintf("status %d: %s", other.HTTPStatusCode, other.Body)
	}
	if m.settings.APIKey != "" {
		text = strings.ReplaceAll(text, m.settings.APIKey, "[the key]")
	}
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "..."
	}
	return fmt.Errorf("the model cannot be asked: %s", text)
}
