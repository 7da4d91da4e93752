package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/wire"
)

// stateless is the revision of MCP in which requests stand alone. Servers that
// do not know it are served to its clients all the same: most of its requests
// mean to them what they always did.
const stateless = "2026-07-28"

// revisionOf is the revision that a request itself names, empty before
// stateless.
func revisionOf(message wire.Message) string {
	span, err := message.Param("_meta", mcp.MetaKeyProtocolVersion)
	if err != nil {
		return ""
	}
	revision, _ := wire.Text(message.Bytes(span))
	return string(revision)
}

// standingAlone takes a request that needs no session.
func (s *member) standingAlone(ctx context.Context, message wire.Message, revision string) error {
	if revision != stateless {
		s.refuseRevision(message, revision)
		return nil
	}
	can, err := capabilitiesOf(message)
	if err != nil {
		s.client.refuse(message, wire.CodeInvalidParams, err.Error())
		return nil
	}
	switch method := string(message.Method); method {
	case methodDiscover:
		s.mux.mu.Lock()
		result, err := s.mux.hello.discovered()
		s.mux.mu.Unlock()
		if err != nil {
			s.client.refuse(message, wire.CodeInternal, err.Error())
			return nil
		}
		s.client.succeed(message, result)
		return nil
	case methodListen:
		s.listen(message)
		return nil
	case "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		s.client.refuse(message, wire.CodeMethodNotFound, method+" is of the revisions before "+stateless)
		return nil
	default:
		if state := stateOf(message); state != "" {
			return s.resume(ctx, message, state)
		}
		added := []addition{{"resultType", `"complete"`}}
		if strings.HasSuffix(method, "/list") || method == "resources/read" {
			added = append(added, addition{"ttlMs", "0"}, addition{"cacheScope", `"private"`})
		}
		return s.forward(ctx, message, &call{added: added, alone: true, can: can})
	}
}

// refuseRevision says which revisions there are.
func (s *member) refuseRevision(message wire.Message, revision string) {
	s.mux.mu.Lock()
	supported := s.mux.hello.revisions()
	s.mux.mu.Unlock()
	answer, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0",
		"id":      json.RawMessage(message.Bytes(message.ID)),
		"error": map[string]any{
			"code":    mcp.CodeUnsupportedProtocolVersion,
			"message": fmt.Sprintf("the server is not served in revision %q", revision),
			"data":    mcp.UnsupportedProtocolVersionData{Supported: supported, Requested: revision},
		},
	})
	if err != nil {
		s.client.refuse(message, mcp.CodeUnsupportedProtocolVersion, err.Error())
		return
	}
	s.client.answer(message.Bytes(message.ID), answer)
}

// revisions are those in which the server is served.
func (h hello) revisions() []string {
	known := revisions[:slices.Index(revisions, h.revision)+1]
	return append(slices.Clone(known), stateless)
}

// discovered is the result of server/discover, from what the server said.
func (h hello) discovered() ([]byte, error) {
	result := map[string]any{
		"resultType":        "complete",
		"ttlMs":             0,
		"cacheScope":        "private",
		"supportedVersions": h.revisions(),
		"capabilities":      h.result["capabilities"],
		"_meta":             map[string]any{mcp.MetaKeyServerInfo: h.result["serverInfo"]},
	}
	if instructions, ok := h.result["instructions"]; ok {
		result["instructions"] = instructions
	}
	return json.Marshal(result)
}

// listener is a client that listens in the course of a request.
type listener struct {
	id    []byte // of the request
	wants mcp.NotificationSubscriptions
	// Of a server without sessions:
	deliver func(wire.Message)
	end     func()
}

// everyList is what tells of all lists.
var everyList = mcp.NotificationSubscriptions{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}

func wantsLists(wants mcp.NotificationSubscriptions) bool {
	return wants.ToolsListChanged || wants.PromptsListChanged || wants.ResourcesListChanged
}

// follows reports whether a listener wants to hear of a resource or, for none,
// of a list.
func (l *listener) follows(uri string) bool {
	if uri == "" {
		return wantsLists(l.wants)
	}
	return slices.Contains(l.wants.ResourceSubscriptions, uri)
}

// agreed is the notification that a listener hears from now on of what it wants.
func (l *listener) agreed() (wire.Message, error) {
	params, err := json.Marshal(map[string]any{"notifications": l.wants, "_meta": subscription(l.id)})
	if err != nil {
		return wire.Message{}, err
	}
	return wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":%s}`, methodAcknowledged, params))
}

// addressed is a notification of the server as the listener gets it.
func (l *listener) addressed(message wire.Message, uri string) []byte {
	if at, err := message.Param("_meta", mcp.MetaKeySubscriptionID); err == nil && at.Found() {
		return message.Replace(nil, at, l.id)
	}
	params := map[string]any{"_meta": subscription(l.id)}
	if uri != "" {
		params["uri"] = uri
	}
	encoded, err := json.Marshal(params)
	if err != nil {
		return nil // of strings and JSON: there is none
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":%s}`, message.Method, encoded)
}

// listen has a client hear of what it names, as far as the server tells it.
func (s *member) listen(message wire.Message) {
	var params struct {
		Notifications mcp.NotificationSubscriptions `json:"notifications"`
	}
	id := message.Bytes(message.ID)
	if err := json.Unmarshal(message.Bytes(message.Params), &params); err != nil {
		s.client.refuse(message, wire.CodeInvalidParams, err.Error())
		return
	}
	if len(params.Notifications.ResourceSubscriptions) > maxFollowed {
		s.client.refuse(message, wire.CodeInvalidParams, errTooMany.Error())
		return
	}
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	if s.closed {
		return
	}
	l := &listener{id: id, wants: s.mux.hello.tells(params.Notifications)}
	agreed, err := l.agreed()
	if err != nil {
		s.client.refuse(message, wire.CodeInternal, err.Error())
		return
	}
	s.client.put(agreed.Raw)
	s.listeners[string(id)] = l
	for _, uri := range l.wants.ResourceSubscriptions {
		s.mux.request("resources/subscribe", map[string]string{"uri": uri}, nil)
	}
}

// subscription is what notifications to a listener have in their _meta.
func subscription(id []byte) map[string]json.RawMessage {
	return map[string]json.RawMessage{mcp.MetaKeySubscriptionID: id}
}

// tells is what of the wanted the server can tell of.
func (h hello) tells(wanted mcp.NotificationSubscriptions) mcp.NotificationSubscriptions {
	type feature struct{ ListChanged, Subscribe bool }
	var can struct{ Tools, Prompts, Resources feature }
	if err := json.Unmarshal(h.result["capabilities"], &can); err != nil {
		return mcp.NotificationSubscriptions{}
	}
	wanted.ToolsListChanged = wanted.ToolsListChanged && can.Tools.ListChanged
	wanted.PromptsListChanged = wanted.PromptsListChanged && can.Prompts.ListChanged
	wanted.ResourcesListChanged = wanted.ResourcesListChanged && can.Resources.ListChanged
	if !can.Resources.Subscribe {
		wanted.ResourceSubscriptions = nil
	}
	return wanted
}

// hears reports whether a listener wants a notification, of which uri is the
// resource if it is about one.
func (l *listener) hears(method, uri string) bool {
	switch method {
	case "notifications/tools/list_changed":
		return l.wants.ToolsListChanged
	case "notifications/prompts/list_changed":
		return l.wants.PromptsListChanged
	case "notifications/resources/list_changed":
		return l.wants.ResourcesListChanged
	case "notifications/resources/updated":
		return slices.ContainsFunc(l.wants.ResourceSubscriptions, func(own string) bool { return strings.HasPrefix(uri, own) })
	default:
		return false
	}
}

// tellListeners tells those of a client who want to hear of it.
func (s *member) tellListeners(message wire.Message) {
	uri := uriOf(message)
	for _, l := range s.listeners {
		if l.hears(string(message.Method), uri) {
			s.client.put(l.addressed(message, uri))
		}
	}
}

// unlisten ends a listener that the client has cancelled.
func (s *member) unlisten(id []byte) bool {
	l, found := s.listeners[string(id)]
	if !found {
		return false
	}
	delete(s.listeners, string(id))
	for _, uri := range l.wants.ResourceSubscriptions {
		s.mux.leave(uri)
	}
	return true
}

// wantsUpdates reports whether a client wants to hear of a resource.
func (s *member) wantsUpdates(uri string) bool {
	if s.subscribed[uri] {
		return true
	}
	for _, l := range s.listeners {
		if slices.Contains(l.wants.ResourceSubscriptions, uri) {
			return true
		}
	}
	return false
}
