package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/plughost/plughost/shared/wire"
)

// logLevel is a level of the server's log, as MCP names them; noLevel is none.
type logLevel int

const noLevel logLevel = -1

var levelNames = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// unasked is what a client gets of the log that never asked for a level, once
// another one has. Before that it is whatever the server sends.
const unasked logLevel = 1

func levelOf(message wire.Message) (level logLevel, at wire.Span) {
	at, err := message.Param("level")
	if err != nil {
		return noLevel, at
	}
	name, _ := wire.Text(message.Bytes(at))
	return logLevel(slices.Index(levelNames, string(name))), at
}

// setLevel has the server log what the most curious of the clients wants.
func (s *member) setLevel(ctx context.Context, message wire.Message) error {
	level, at := levelOf(message)
	if level == noLevel {
		return s.forward(ctx, message, &call{}) // the server says what is wrong
	}
	s.mux.mu.Lock()
	s.level = level
	wanted := s.mux.wantedLevel()
	told := s.mux.level
	s.mux.level = wanted
	s.mux.mu.Unlock()
	if wanted == told {
		s.client.succeed(message, []byte("{}"))
		return nil
	}
	changed, err := wire.Scan(message.Replace(nil, at, strconv.AppendQuote(nil, levelNames[wanted])))
	if err != nil {
		return err
	}
	return s.forward(ctx, changed, &call{done: func(answer wire.Message) {
		if answer.Error.Found() {
			s.mux.level = noLevel
		}
	}})
}

// wantedLevel is the lowest level that a client asked for.
func (m *mux) wantedLevel() logLevel {
	wanted := noLevel
	for s := range m.members {
		if s.level != noLevel && (wanted == noLevel || s.level < wanted) {
			wanted = s.level
		}
	}
	return wanted
}

// followLevel has the server log less when the most curious client has gone.
func (m *mux) followLevel() {
	wanted := m.wantedLevel()
	if wanted == noLevel || wanted == m.level {
		return
	}
	m.level = wanted
	m.request("logging/setLevel", map[string]string{"level": levelNames[wanted]}, nil)
}

// logged passes a line of the server's log to those who want it.
func (m *mux) logged(message wire.Message) {
	level, _ := levelOf(message)
	for _, c := range m.calls {
		if c.heard != nil && c.level != noLevel && level >= c.level {
			c.heard(message)
		}
	}
	for s := range m.members {
		from := s.level
		if from == noLevel && m.level != noLevel {
			from = unasked
		}
		if s.ready && (level == noLevel || level >= from) {
			s.client.put(message.Raw)
		}
	}
}

func uriOf(message wire.Message) string {
	span, err := message.Param("uri")
	if err != nil {
		return ""
	}
	uri, _ := wire.Text(message.Bytes(span))
	return string(uri)
}

// subscribe takes note before the server does, so that nothing is missed.
func (s *member) subscribe(ctx context.Context, message wire.Message) error {
	uri := uriOf(message)
	s.mux.mu.Lock()
	s.subscribed[uri] = true
	s.mux.mu.Unlock()
	return s.forward(ctx, message, &call{done: func(answer wire.Message) {
		if answer.Error.Found() {
			delete(s.subscribed, uri)
		}
	}})
}

// unsubscribe tells the server only if nobody else is subscribed.
func (s *member) unsubscribe(ctx context.Context, message wire.Message) error {
	uri := uriOf(message)
	s.mux.mu.Lock()
	was := s.subscribed[uri]
	delete(s.subscribed, uri)
	others := s.mux.anySubscribed(uri)
	s.mux.mu.Unlock()
	if was && others {
		s.client.succeed(message, []byte("{}"))
		return nil
	}
	return s.forward(ctx, message, &call{done: func(wire.Message) { s.mux.unsubscribed(uri) }})
}

// unsubscribed subscribes again for who has subscribed since the server was told
// that nobody is: it may have heard of that first.
func (m *mux) unsubscribed(uri string) {
	if m.anySubscribed(uri) {
		m.request("resources/subscribe", map[string]string{"uri": uri}, nil)
	}
}

func (m *mux) anySubscribed(uri string) bool {
	for s := range m.members {
		if s.wantsUpdates(uri) {
			return true
		}
	}
	return false
}

// leave ends the server's subscription of a client that has gone.
func (m *mux) leave(uri string) {
	if m.anySubscribed(uri) {
		return
	}
	m.request("resources/unsubscribe", map[string]string{"uri": uri}, func(wire.Message) { m.unsubscribed(uri) })
}

// updated tells those who subscribed to the resource, or to one that it is part
// of.
func (m *mux) updated(message wire.Message) {
	uri := uriOf(message)
	m.tellAudience(message)
	for s := range m.members {
		s.tellListeners(message)
		for subscribed := range s.subscribed {
			if strings.HasPrefix(uri, subscribed) {
				s.client.put(message.Raw)
				break
			}
		}
	}
}
