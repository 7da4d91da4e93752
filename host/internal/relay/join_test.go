package relay

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/shared/wire"
)

// FuzzRoute has clients ask anything: it is refused, answered with JSON, or passed
// on as a message with the client's id.
func FuzzRoute(f *testing.F) {
	for _, m := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__t","arguments":{"name":1}}}`,
		`{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"name":"s__\u0070"},"method":"prompts/get","id":"x","jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"s__p"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"x://{a}"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x://r"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"x://y"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/templates/list","params":{"cursor":"eA"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":[]}`,
	} {
		f.Add([]byte(m))
	}
	service := newTestService("s")
	var has features
	for k, object := range map[kind]string{
		kindTools:     `{"name":"t","inputSchema":{"type":"object"}}`,
		kindPrompts:   `{"name":"p"}`,
		kindResources: `{"uri":"x://r","name":"r"}`,
		kindTemplates: `{"uriTemplate":"x://{a}","name":"a"}`,
	} {
		has.lists[k] = listed(f, service, k, object).lists[k]
	}
	j := NewJoin("join", "1", Options{})
	f.Cleanup(j.Close)
	j.Arrange([]*Service{service})
	j.listed(service, has)
	s := newSession(j.Relay, "", caller.Caller{})
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := wire.Scan(data)
		if err != nil || m.Kind != wire.Request {
			return
		}
		for _, of := range []*session{nil, s} {
			rt, err := j.route(of, caller.Caller{}, &m)
			switch {
			case err != nil:
				if !json.Valid(errorMessage(m.Bytes(m.ID), err)) {
					t.Fatalf("refused with what is not JSON: %v", err)
				}
			case rt.to == nil:
				if !json.Valid(rt.result) {
					t.Fatalf("answered with %s", rt.result)
				}
			default:
				again, err := wire.Scan(rt.message.Raw)
				if err != nil || string(again.Bytes(again.ID)) != string(m.Bytes(m.ID)) || !reflect.DeepEqual(again, *rt.message) {
					t.Fatalf("passed on as %s: %v", rt.message.Raw, err)
				}
			}
		}
	})
}
