//go:build unix

package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/plughost/plughost/shared/bridge"
)

// Some servers make strings of numbers.
func TestAnswersUnderIdsThatBecameStringsAreTaken(t *testing.T) {
	t.Parallel()
	const script = `while read line; do case "$line" in
*initialize*) echo '{"jsonrpc":"2.0","id":"1","result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}';;
*tools/call*) id=${line#*\"id\":}; echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"'${id%%[,\}]*}'","progress":1}}'
echo '{"jsonrpc":"2.0","id":"'${id%%[,\}]*}'","result":{}}';;
esac; done`
	shell := bridge.Target{Path: "/bin/sh", Args: []string{"sh", "-c", script}}
	isolated := shell
	isolated.Isolated = true
	for name, target := range map[string]bridge.Target{
		"one for all": shell,
		"isolated":    isolated,
		"remote": elsewhere(t, greetHandler(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"7","result":{}}`)
		})),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			send, receive, _ := hostTarget(t, target).rawSession()
			send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":7}}}`)
			got := receive()
			if strings.Contains(got, "progress") {
				got = receive()
			} else if name == "one for all" {
				t.Errorf("of its progress the client hears %s", got)
			}
			if want := `{"jsonrpc":"2.0","id":7,"result":{}}`; got != want {
				t.Errorf("the call is answered %s, want %s", got, want)
			}
		})
	}
}
