package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/mcphttp"
	"github.com/plughost/plughost/shared/wire"
)

// maxPages is how many pages of a remote server's tools are read.
const maxPages = 100

// remoteAsker is a remote server that knows requests which stand alone.
type remoteAsker struct {
	*link
	hello hello
}

// discover asks the server what it is.
func (r *remote) discover(ctx context.Context) (*remoteAsker, error) {
	ctx, cancel := context.WithTimeout(ctx, discoverTimeout)
	defer cancel()
	s := &remoteAsker{link: &link{endpoint: r.endpoint, tools: &mcphttp.ToolHeaders{}}}
	answer, err := s.own(ctx, methodDiscover, nil)
	if err == nil {
		s.hello, err = discovered(answer)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// said implements asker.
func (s *remoteAsker) said() hello { return s.hello }

// ask implements asker. What a tool wants to have in headers is known once its
// list was seen; a server that misses something has not done anything yet.
func (s *remoteAsker) ask(ctx context.Context, request wire.Message, deliver func(wire.Message)) error {
	var refused *wire.Message
	err := s.link.ask(ctx, request, func(got wire.Message) {
		if codeOf(got) == mcp.CodeHeaderMismatch {
			refused = &got
			return
		}
		s.tools.Learn(got.Raw)
		deliver(got)
	})
	if err != nil || refused == nil {
		return err
	}
	if err := s.learn(ctx); err != nil {
		deliver(*refused)
		return nil
	}
	return s.link.ask(ctx, request, deliver)
}

// codeOf is the code of an error, 0 of what is none.
func codeOf(m wire.Message) int {
	at, err := m.Find(m.Error, "code")
	if err != nil {
		return 0
	}
	code, _ := strconv.Atoi(string(m.Bytes(at)))
	return code
}

// learn reads what all tools want to have in headers.
func (s *remoteAsker) learn(ctx context.Context) error {
	params := make(map[string]any)
	for range maxPages {
		answer, err := s.own(ctx, "tools/list", params)
		if err != nil {
			return err
		}
		s.tools.Learn(answer.Raw)
		next, err := answer.Find(answer.Result, "nextCursor")
		if err != nil || !next.Found() {
			return err
		}
		params["cursor"] = json.RawMessage(answer.Bytes(next))
	}
	return nil
}

// own makes a request of the bridge's own.
func (s *remoteAsker) own(ctx context.Context, method string, params map[string]any) (answer wire.Message, err error) {
	if params == nil {
		params = make(map[string]any)
	}
	params["_meta"] = ownMeta()
	encoded, err := json.Marshal(params)
	if err != nil {
		return answer, err
	}
	request, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, encoded))
	if err != nil {
		return answer, err
	}
	err = s.link.ask(ctx, request, func(got wire.Message) { answer = got })
	return answer, err
}

// either is a client of a server that has sessions and knows requests which
// stand alone: each goes where it belongs.
type either struct {
	session *away
	alone   *guest
}

// send implements upstream.
func (e *either) send(ctx context.Context, m wire.Message) error {
	if m.Kind == wire.Request && revisionOf(m) != "" {
		return e.alone.send(ctx, m)
	}
	if span, err := m.CancelledID(); err == nil && m.Kind == wire.Notification && e.alone.calls.giveUp(m.Bytes(span)) {
		e.alone.client.done(m.Bytes(span))
		return nil
	}
	return e.session.send(ctx, m)
}

// close implements upstream.
func (e *either) close() {
	e.alone.close()
	e.session.close()
}
