package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/wire"
)

// maxAsked is how often a server may ask for something in the course of a call.
const maxAsked = 10

// elder is a client with a session, of a server that has none: what it said once
// is said with each of its requests, and what the server wants to have before it
// answers the client is asked for.
type elder struct {
	*guest
	ready sync.Once // the client has said that it is

	mu         sync.Mutex
	info, can  json.RawMessage // as it said them
	level      string
	subscribed map[string]context.CancelFunc // ends them, by their URIs
	questions  map[string]chan wire.Message  // to the client, by their ids
	last       int                           // of the ids that were given
}

func newElder(g *guest) *elder {
	return &elder{
		guest: g, can: []byte("{}"),
		subscribed: make(map[string]context.CancelFunc), questions: make(map[string]chan wire.Message),
	}
}

// request takes a request that belongs to a session.
func (e *elder) request(m wire.Message) {
	switch method := string(m.Method); method {
	case "initialize":
		e.initialize(m)
	case "ping":
		e.client.succeed(m, []byte("{}"))
	case "logging/setLevel":
		e.setLevel(m)
	case "resources/subscribe":
		e.run(m, e.subscribe)
	case "resources/unsubscribe":
		e.unsubscribe(m)
	case methodDiscover, methodListen:
		e.client.refuse(m, wire.CodeInvalidParams, "the request names no protocol version in its _meta")
	default:
		e.run(m, e.call)
	}
}

func (e *elder) initialize(m wire.Message) {
	var params struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Capabilities    json.RawMessage `json:"capabilities"`
		ClientInfo      json.RawMessage `json:"clientInfo"`
	}
	if err := json.Unmarshal(m.Bytes(m.Params), &params); err != nil {
		e.client.refuse(m, wire.CodeInvalidParams, fmt.Sprintf("cannot initialize the session: %v", err))
		return
	}
	result, err := e.server.said().to(params.ProtocolVersion)
	if err != nil {
		e.client.refuse(m, wire.CodeInternal, err.Error())
		return
	}
	e.mu.Lock()
	e.info = params.ClientInfo
	if params.Capabilities != nil {
		e.can = params.Capabilities
	}
	e.mu.Unlock()
	e.client.succeed(m, result)
}

// initialized has the client hear of changed lists from now on.
func (e *elder) initialized() {
	if wants := e.server.said().tells(everyList); wantsLists(wants) {
		e.ready.Do(func() { e.hear(e.life, wants) })
	}
}

func (e *elder) setLevel(m wire.Message) {
	level, _ := levelOf(m)
	if level == noLevel {
		e.client.refuse(m, wire.CodeInvalidParams, "there is no such level")
		return
	}
	e.mu.Lock()
	e.level = levelNames[level]
	e.mu.Unlock()
	e.client.succeed(m, []byte("{}"))
}

// subscribe answers when the server tells of the resource.
func (e *elder) subscribe(ctx context.Context, m wire.Message) error {
	uri := uriOf(m)
	if len(e.server.said().tells(mcp.NotificationSubscriptions{ResourceSubscriptions: []string{uri}}).ResourceSubscriptions) == 0 {
		e.client.refuse(m, wire.CodeMethodNotFound, "the server tells of no resource that it has changed")
		return nil
	}
	life, end := context.WithCancel(e.life)
	select {
	case err := <-e.hear(life, mcp.NotificationSubscriptions{ResourceSubscriptions: []string{uri}}):
		if err != nil {
			end()
			return err
		}
	case <-ctx.Done():
		end()
		return context.Cause(ctx)
	}
	if !e.keep(uri, end) {
		end()
		return errTooMany
	}
	e.client.succeed(m, []byte("{}"))
	return nil
}

// keep takes note of what ends a subscription, in the place of the one before. It
// reports false if there are too many.
func (e *elder) keep(uri string, end context.CancelFunc) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	before, again := e.subscribed[uri]
	if !again && len(e.subscribed) >= maxFollowed {
		return false
	}
	e.subscribed[uri] = end
	if again {
		before()
	}
	return true
}

func (e *elder) unsubscribe(m wire.Message) {
	uri := uriOf(m)
	e.mu.Lock()
	end := e.subscribed[uri]
	delete(e.subscribed, uri)
	e.mu.Unlock()
	if end != nil {
		end()
	}
	e.client.succeed(m, []byte("{}"))
}

// hear has the client hear of what changes, until life ends, however often the
// connection to the server breaks. It tells once whether that has begun.
func (e *elder) hear(life context.Context, wants mcp.NotificationSubscriptions) <-chan error {
	begun := make(chan error, 1)
	go func() {
		var once sync.Once
		tell := func(err error) { once.Do(func() { begun <- err }) }
		acknowledged := false
		for wait := minReconnect; ; wait = min(2*wait, maxReconnect) {
			err := e.listen(life, wants, func() {
				if acknowledged {
					e.changed(wants)
				}
				acknowledged, wait = true, minReconnect
				tell(nil)
			})
			tell(err)
			if errors.Is(err, errRefused) || pause(life, wait) != nil {
				return
			}
		}
	}()
	return begun
}

var errRefused = errors.New("the server does not tell what changes")

// listen has the client hear of what changes over one request, until that ends.
func (e *elder) listen(ctx context.Context, wants mcp.NotificationSubscriptions, acknowledged func()) error {
	params, err := json.Marshal(map[string]any{"notifications": wants})
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.last++
	id := fmt.Appendf(nil, `"listen-%d"`, e.last)
	e.mu.Unlock()
	request, err := e.standing(id, methodListen, params, nil)
	if err != nil {
		return err
	}
	var refusal error
	err = e.server.ask(ctx, request, func(got wire.Message) {
		switch {
		case got.Kind == wire.Response && got.Error.Found():
			refusal = fmt.Errorf("%w: %s", errRefused, shown(got.Bytes(got.Error)))
		case string(got.Method) == methodAcknowledged:
			acknowledged()
		case got.Kind == wire.Notification:
			e.client.put(got.Raw)
		}
	})
	return errors.Join(err, refusal)
}

// changed tells the client that all may be other: nobody listened for a while.
func (e *elder) changed(wants mcp.NotificationSubscriptions) {
	for list, wanted := range map[string]bool{"tools": wants.ToolsListChanged, "prompts": wants.PromptsListChanged, "resources": wants.ResourcesListChanged} {
		if wanted {
			e.client.put(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/%s/list_changed"}`, list))
		}
	}
	for _, uri := range wants.ResourceSubscriptions {
		e.client.put(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%s}}`, jsonText(uri)))
	}
}

// standing is a request that says all that the client has said in its session.
func (e *elder) standing(id []byte, method string, params []byte, more map[string]any) (wire.Message, error) {
	all, meta := make(map[string]any), make(map[string]any)
	if params != nil {
		var given, said map[string]json.RawMessage
		if err := json.Unmarshal(params, &given); err != nil {
			return wire.Message{}, fmt.Errorf("the parameters make no sense: %w", err)
		}
		for name, value := range given {
			all[name] = value
		}
		if err := json.Unmarshal(given["_meta"], &said); given["_meta"] != nil && err != nil {
			return wire.Message{}, fmt.Errorf("_meta makes no sense: %w", err)
		}
		for name, value := range said {
			meta[name] = value
		}
	}
	e.mu.Lock()
	meta[mcp.MetaKeyProtocolVersion], meta[mcp.MetaKeyClientCapabilities] = stateless, e.can
	if e.info != nil {
		meta[mcp.MetaKeyClientInfo] = e.info
	}
	if e.level != "" {
		meta[mcp.MetaKeyLogLevel] = e.level
	}
	e.mu.Unlock()
	maps.Copy(all, more)
	all["_meta"] = meta
	encoded, err := json.Marshal(all)
	if err != nil {
		return wire.Message{}, err
	}
	return wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%s,"params":%s}`, id, jsonText(method), encoded))
}

// inputRequired is a result that is none yet.
type inputRequired struct {
	ResultType string                  `json:"resultType"`
	Requests   map[string]inputRequest `json:"inputRequests"`
	State      json.RawMessage         `json:"requestState"`
}

type inputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// call makes a request of the client, again and again while the server has to
// know more of it.
func (e *elder) call(ctx context.Context, m wire.Message) error {
	id := m.Bytes(m.ID)
	var more map[string]any
	for range maxAsked {
		request, err := e.standing(id, string(m.Method), m.Bytes(m.Params), more)
		if err != nil {
			e.client.refuse(m, wire.CodeInvalidParams, err.Error())
			return nil
		}
		var answer wire.Message
		err = e.server.ask(ctx, request, func(got wire.Message) {
			if got.Kind == wire.Response {
				answer = got
				return
			}
			e.client.putFor(id, got.Raw)
		})
		if err != nil {
			return err
		}
		var wants inputRequired
		if json.Unmarshal(answer.Bytes(answer.Result), &wants) != nil || wants.ResultType != "input_required" {
			e.client.answer(id, answer.Raw)
			return nil
		}
		if len(wants.Requests) == 0 {
			return errors.New("the server is too busy for this call: make it later")
		}
		responses, err := e.inputs(ctx, id, wants.Requests)
		if err != nil {
			return err
		}
		more = map[string]any{"inputResponses": responses}
		if wants.State != nil {
			more["requestState"] = wants.State
		}
	}
	return fmt.Errorf("the server has asked for more %d times, and is not done", maxAsked)
}

// inputs asks the client, all at once, for what a server wants to have in the
// course of a call.
func (e *elder) inputs(ctx context.Context, call []byte, requests map[string]inputRequest) (map[string]json.RawMessage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(map[string]<-chan wire.Message)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		answers[name] = e.question(ctx, call, requests[name])
	}
	responses := make(map[string]json.RawMessage)
	for name, answer := range answers {
		select {
		case m := <-answer:
			if m.Error.Found() {
				return nil, fmt.Errorf("the client does not answer %s, which the server needs: %s", requests[name].Method, shown(m.Bytes(m.Error)))
			}
			responses[name] = m.Bytes(m.Result)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return responses, nil
}

// question asks the client for one thing. Once ctx ends nobody waits for it any
// more.
func (e *elder) question(ctx context.Context, call []byte, request inputRequest) <-chan wire.Message {
	answer := make(chan wire.Message, 1)
	e.mu.Lock()
	e.last++
	id := strconv.Itoa(e.last)
	e.questions[id] = answer
	e.mu.Unlock()
	params := request.Params
	if params == nil {
		params = []byte("{}")
	}
	e.client.putFor(call, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%s,"params":%s}`, id, jsonText(request.Method), params))
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, open := e.questions[id]; open {
			delete(e.questions, id)
			e.client.put(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
		}
	})
	return answer
}

// reply takes the client's answer to a question.
func (e *elder) reply(m wire.Message) {
	id := string(m.Bytes(m.ID))
	e.mu.Lock()
	defer e.mu.Unlock()
	if answer := e.questions[id]; answer != nil {
		delete(e.questions, id)
		answer <- m
	}
}
