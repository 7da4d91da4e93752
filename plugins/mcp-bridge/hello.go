package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/plughost/plughost/shared/wire"
)

// revisions are those of MCP in which a client initializes a session, the oldest
// first.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// hello is what the server said when it was initialized.
type hello struct {
	revision string
	result   map[string]json.RawMessage
}

// capabilities are what of a client's concerns the server's requests.
type capabilities struct {
	Roots       *json.RawMessage `json:"roots"`
	Sampling    *json.RawMessage `json:"sampling"`
	Elicitation *json.RawMessage `json:"elicitation"`
}

// greeting is how the bridge initializes the server: as a client that can what
// any client of it may be able to. Who cannot is not asked.
func greeting() any {
	none := struct{}{}
	return map[string]any{
		"protocolVersion": revisions[len(revisions)-1],
		"capabilities": map[string]any{
			"roots":       map[string]any{"listChanged": true},
			"sampling":    none,
			"elicitation": map[string]any{"form": none, "url": none},
		},
		"clientInfo": ownInfo(),
	}
}

// greeted takes the server's answer to the greeting. It is called with the lock
// held.
func (m *mux) greeted(answer wire.Message) error {
	if answer.Error.Found() {
		return fmt.Errorf("the server refuses to be initialized: %s", shown(answer.Bytes(answer.Error)))
	}
	var h hello
	if err := json.Unmarshal(answer.Bytes(answer.Result), &h.result); err != nil {
		return fmt.Errorf("the server's answer to initialize makes no sense: %w", err)
	}
	if err := json.Unmarshal(h.result["protocolVersion"], &h.revision); err != nil {
		return fmt.Errorf("the server's answer to initialize names no protocol version: %w", err)
	}
	if !slices.Contains(revisions, h.revision) {
		return fmt.Errorf("the server speaks MCP of %q, and not of %s", h.revision, revisions[len(revisions)-1])
	}
	if capabilities, ok := h.result["capabilities"]; ok {
		h.result["capabilities"] = withoutTaskList(capabilities)
	}
	m.hello = h
	return nil
}

// initialize answers a client from what the server said. A client of an older
// revision is spoken to in that one: newer servers only add to it.
func (s *member) initialize(message wire.Message) {
	var params struct {
		ProtocolVersion string       `json:"protocolVersion"`
		Capabilities    capabilities `json:"capabilities"`
	}
	if err := json.Unmarshal(message.Bytes(message.Params), &params); err != nil {
		s.client.refuse(message, wire.CodeInvalidParams, fmt.Sprintf("cannot initialize the session: %v", err))
		return
	}
	s.mux.mu.Lock()
	s.can = params.Capabilities
	result, err := s.mux.hello.to(params.ProtocolVersion)
	s.mux.mu.Unlock()
	if err != nil {
		s.client.refuse(message, wire.CodeInternal, err.Error())
		return
	}
	s.client.succeed(message, result)
}

// to is the result of initialize for a client that asks for a revision.
func (h hello) to(revision string) ([]byte, error) {
	newest := min(h.revision, revisions[len(revisions)-1])
	if !slices.Contains(revisions, revision) || revision > newest {
		revision = newest
	}
	result := make(map[string]json.RawMessage, len(h.result))
	for name, value := range h.result {
		result[name] = value
	}
	encoded, err := json.Marshal(revision)
	if err != nil {
		return nil, err
	}
	result["protocolVersion"] = encoded
	return json.Marshal(result)
}
