//go:build unix

package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/events"
	"github.com/plughost/plughost/host/internal/logs"
	"github.com/plughost/plughost/host/internal/supervise"
)

// serveStreams runs a server with events and logs to the end of the test.
func serveStreams(t *testing.T, hub *events.Hub, l Logs, keepAlive time.Duration) string {
	t.Helper()
	path := filepath.Join(shortDir(t), "control.sock")
	listener, err := Listen(path, Nobody)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(&services{}, statusNow)
	server.handleEvents(hub, keepAlive)
	server.HandleLogs(l)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return path
}

func transition(service config.Ref, cause string) events.Event {
	return events.Event{Type: events.ServiceChanged, Service: service.String(), Cause: cause, Time: time.Unix(1e9, 0).UTC()}
}

func TestEventsAreReplayedAndFollowed(t *testing.T) {
	hub := events.NewHub(time.Now(), 8)
	hub.Publish(transition(clock, "one"))
	hub.Publish(transition(assistant, "two"))
	hub.Publish(events.Event{Type: events.HostReady, Cause: "three"})
	client := NewClient(serveStreams(t, hub, nil, keepAlive))

	causes := func(query EventQuery) (got []string, last string) {
		err := client.Events(t.Context(), query, func(e events.Event) error {
			got, last = append(got, e.Cause), e.ID
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return got, last
	}
	all, last := causes(EventQuery{})
	if want := []string{"one", "two", "three"}; !slices.Equal(all, want) {
		t.Errorf("got %q, want %q", all, want)
	}
	if got, _ := causes(EventQuery{Services: []config.Ref{clock}}); !slices.Equal(got, []string{"one"}) {
		t.Errorf("of one service: %q", got)
	}

	// Two that follow, one of them after the last it knows.
	type follower struct {
		query EventQuery
		seen  chan string
		ended chan error
	}
	followers := []*follower{{query: EventQuery{Follow: true}}, {query: EventQuery{Follow: true, After: last}}}
	for _, f := range followers {
		f.seen, f.ended = make(chan string), make(chan error, 1)
		go func() {
			f.ended <- client.Events(context.Background(), f.query, func(e events.Event) error {
				f.seen <- e.Cause
				return nil
			})
		}()
	}
	for _, want := range all {
		if got := <-followers[0].seen; got != want {
			t.Errorf("it follows %q, want %q", got, want)
		}
	}
	hub.Publish(transition(clock, "four"))
	for i, f := range followers {
		if got := <-f.seen; got != "four" {
			t.Errorf("follower %d sees %q, want the one that is new", i, got)
		}
	}
	hub.Publish(transition(clock, "the last"))
	hub.Close()
	for i, f := range followers {
		if got, err := <-f.seen, <-f.ended; got != "the last" || err != nil {
			t.Errorf("follower %d ends after %q with %v", i, got, err)
		}
	}
}

func TestEventsAreServerSentEvents(t *testing.T) {
	hub := events.NewHub(time.Now(), 8)
	event := transition(clock, "a\nb <c>")
	hub.Publish(event)
	path := serveStreams(t, hub, nil, time.Millisecond)
	code, body := raw(t, path, http.MethodGet, "/v1/events?follow=false")
	lines := strings.Split(body, "\n")
	if code != 200 || len(lines) != 5 || !strings.HasPrefix(lines[0], "id: ") || lines[1] != "event: service.changed" || lines[3]+lines[4] != "" {
		t.Fatalf("%d %q", code, body)
	}
	event.ID = strings.TrimPrefix(lines[0], "id: ")
	var got events.Event
	if err := json.Unmarshal([]byte(strings.TrimPrefix(lines[2], "data: ")), &got); err != nil || got != event {
		t.Errorf("the data is %q, %v; want %+v", lines[2], err, event)
	}

	// While nothing happens, comments come.
	response, err := NewClient(path).open(t.Context(), http.MethodGet, "/v1/events", http.Header{"Last-Event-Id": {event.ID}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("the type is %q", kind)
	}
	reader := bufio.NewReader(response.Body)
	for range 4 {
		if line, err := reader.ReadString('\n'); err != nil || line != "\n" && !strings.HasPrefix(line, ":") {
			t.Errorf("got %q, %v; want a comment", line, err)
		}
	}
	if code, body := raw(t, path, http.MethodGet, "/v1/events?follow=perhaps"); code != 400 || !strings.Contains(body, "true or false") {
		t.Errorf("%d %s", code, body)
	}
}

// Who does not read holds up nobody, and is told what it lost.
func TestASlowReaderOfEventsIsToldWhatItLost(t *testing.T) {
	const published = 5000
	hub := events.NewHub(time.Now(), 16)
	client := NewClient(serveStreams(t, hub, nil, keepAlive))
	begun, proceed := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	var got, lost uint64
	go func() {
		ended <- client.Events(context.Background(), EventQuery{Follow: true}, func(e events.Event) error {
			if e.Type == events.Lost {
				lost += e.Count
				return nil
			}
			if got++; got == 1 {
				close(begun)
				<-proceed
			}
			return nil
		})
	}()
	hub.Publish(transition(clock, "first"))
	<-begun
	for range published { // it takes none of them
		hub.Publish(transition(clock, strings.Repeat("x", 1000)))
	}
	close(proceed)
	hub.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if lost == 0 || got+lost != published+1 {
		t.Errorf("it got %d and was told that %d were lost, of %d", got, lost, published+1)
	}
}

// fakeLogs gives what it is told to, and notes what it was asked for.
type fakeLogs struct {
	services []config.Ref
	query    logs.Query
	follow   bool

	entries []logs.Entry
	wait    chan struct{} // before the last
	err     error
}

func (f *fakeLogs) ReadLogs(_ context.Context, services []config.Ref, query logs.Query, follow bool, yield func([]logs.Entry) error) error {
	f.services, f.query, f.follow = services, query, follow
	for i, entry := range f.entries {
		if i == len(f.entries)-1 && f.wait != nil {
			<-f.wait
		}
		if err := yield([]logs.Entry{entry}); err != nil {
			return err
		}
	}
	return f.err
}

func TestLogsComeAsTheyAre(t *testing.T) {
	entries := []logs.Entry{
		{Time: time.Unix(1e9, 1).UTC(), Service: "mcp.clock", Stream: "stdout", Message: strings.Repeat("x", 100_000)},
		{Time: time.Unix(1e9, 2).UTC(), Service: "agent.assistant", Stream: "host", Level: "warn", Message: "a\nb", Fields: map[string]any{"n": json.Number("12345678901234567890123")}},
	}
	l := &fakeLogs{entries: entries, wait: make(chan struct{})}
	client := NewClient(serveStreams(t, events.NewHub(time.Now(), 1), l, keepAlive))
	query := logs.Query{Since: time.Unix(1e9, 5).UTC(), Tail: 7}
	var got []logs.Entry
	err := client.Logs(t.Context(), []config.Ref{clock, assistant}, query, true, func(e logs.Entry) error {
		if got = append(got, e); len(got) == 1 {
			close(l.wait) // it came before the next was there
		}
		return nil
	})
	if err != nil || !reflect.DeepEqual(got, entries) {
		t.Errorf("%v; got %.200v\nwant %.200v", err, got, entries)
	}
	if !reflect.DeepEqual(l.services, []config.Ref{clock, assistant}) || l.query != query || !l.follow {
		t.Errorf("asked was for %v, %+v, %v", l.services, l.query, l.follow)
	}

	enough := errors.New("enough")
	if err := client.Logs(t.Context(), nil, logs.Everything(), false, func(logs.Entry) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("it ends with %v", err)
	}
	if len(l.services) != 0 || l.query != logs.Everything() || l.follow {
		t.Errorf("asked was for %v, %+v, %v", l.services, l.query, l.follow)
	}
}

func TestRequestsForLogsThatMakeNoSense(t *testing.T) {
	l := &fakeLogs{err: &supervise.UnknownServiceError{Ref: clock}}
	path := serveStreams(t, events.NewHub(time.Now(), 1), l, keepAlive)
	for url, want := range map[string]string{
		"/v1/logs?service=clock":     `as in mcp.clock, but not \"clock\"`,
		"/v1/logs?since=yesterday":   "RFC 3339",
		"/v1/logs?tail=-1":           "number of lines",
		"/v1/logs?tail=x":            "number of lines",
		"/v1/logs?follow=x":          "true or false",
		"/v1/logs?service=mcp.clock": "there is no service mcp.clock",
	} {
		wantCode := http.StatusBadRequest
		if strings.HasSuffix(url, "mcp.clock") {
			wantCode = http.StatusNotFound
		}
		if code, body := raw(t, path, http.MethodGet, url); code != wantCode || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %d with %q", url, code, body, wantCode, want)
		}
	}
}

// A stream that breaks off is not taken for one that ended.
func TestAStreamThatBreaksOffIsAnError(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			request := make([]byte, 4096)
			n, _ := conn.Read(request)
			answer := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\n\n\r\n"
			if bytes.HasPrefix(request[:n], []byte("GET /v1/status")) {
				answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
			}
			_, _ = conn.Write([]byte(answer))
			_ = conn.Close()
		}
	}()
	client := NewClient(path)
	if err := client.Events(t.Context(), EventQuery{Follow: true}, nil); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("events: %v", err)
	}
	ignore := func(logs.Entry) error { return nil }
	if err := client.Logs(t.Context(), nil, logs.Everything(), true, ignore); err == nil {
		t.Errorf("logs: %v", err)
	}
	_ = l.Close()
	<-done
}
