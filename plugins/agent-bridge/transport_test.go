package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"github.com/plughost/plughost/test/idleconn"
)

// speakWith makes what speaks with an agent whose every answer is the handler's.
func speakWith(t *testing.T, answer http.HandlerFunc) a2aclient.Transport {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(u, nil)
	t.Cleanup(client.CloseIdleConnections)
	return a2aclient.NewJSONRPCTransport(server.URL, client)
}

func TestRedirectThatDropsTheMessageIsToldOf(t *testing.T) {
	agent := speakWith(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			t.Errorf("the message became a %s", r.Method)
		}
		http.Redirect(w, r, "/other", http.StatusFound)
	})
	message := &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hello"))}
	if _, err := agent.SendMessage(t.Context(), nil, message); err == nil || !strings.Contains(err.Error(), "302 Found") {
		t.Errorf("error %v", err)
	}
}

func TestRedirectsEnd(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	r, err := newRemote(server.URL, nil, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop(context.Background())
	if err := r.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "again and again") {
		t.Errorf("error %v", err)
	}
}

// read reads an answer of which no more than 100 bytes, or 100 of an event, are
// taken.
func read(kind, content string) (string, error) {
	response := &http.Response{Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(content))}
	bound(response, 100)
	got, err := io.ReadAll(response.Body)
	return string(got), err
}

func TestAnswersAreBounded(t *testing.T) {
	const stream = "text/event-stream; charset=utf-8"
	for name, test := range map[string]struct {
		kind, content string
		long          bool
	}{
		"an answer":                         {"application/json", strings.Repeat("x", 100), false},
		"a long answer":                     {"application/json", strings.Repeat("x", 101), true},
		"an answer with empty lines":        {"application/json", strings.Repeat("\n\n", 60), true},
		"a stream of events":                {stream, strings.Repeat("data: 1\n\n", 50), false},
		"a stream of events with returns":   {stream, strings.Repeat("data: 1\r\n\r\n", 50), false},
		"an event that does not end":        {stream, "data: 1\n\n" + strings.Repeat("data: 1\n", 50), true},
		"an event of one line that is long": {stream, "data: " + strings.Repeat("1", 100) + "\n\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(test.kind, test.content)
			if test.long != errors.Is(err, errLongAnswer) || !test.long && got != test.content {
				t.Errorf("read %d bytes, error %v", len(got), err)
			}
		})
	}
}

func TestIdleConnectionIsClosedBeforeServersDo(t *testing.T) {
	t.Parallel()
	idleconn.Closes(t, func(address string) *http.Client {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		return newClient(u, nil)
	})
}
