//go:build unix

package main

import (
	"io"
	"log"
	"net/http"
	"strings"
	"testing"

	"github.com/plughost/plughost/shared/bridge"
	"github.com/plughost/plughost/shared/wire"
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

// Who waits for an answer that is too long hears that it is.
func TestAnswersThatAreTooLongFail(t *testing.T) {
	t.Parallel()
	long := `{"content":["` + strings.Repeat("x", 100<<10) + `\",\"jsonrpc\":\"2.0\",\"id\":9}"]}`
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"result":` + long + `}`:                      "7",
		`{"result":` + long + `,"jsonrpc":"2.0","id":"7"}`:                    `"7"`,
		`{ "error" : {"data":` + long + `} , "jsonrpc" : "2.0" , "id" : 7 } `: "7",
		`{"jsonrpc":"2.0","id":7,"method":"m","params":` + long + `}`:         "",
		`{"method":"m","params":` + long + `,"jsonrpc":"2.0","id":7}`:         "",
		`{"jsonrpc":"2.0","method":"m","params":` + long + `}`:                "",
		`{"result":` + long: "",
	} {
		lines := newLines(strings.NewReader(line + "\n"))
		lines.max = 64 << 10
		got := ""
		p := &process{log: log.New(io.Discard, "", 0)}
		p.read(lines, func(m wire.Message) {
			if m.Kind == wire.Response && m.Error.Found() {
				got = string(m.Bytes(m.ID))
			}
		})
		if got != want {
			t.Errorf("%.40s...%s fails under %s, want %s", line, line[len(line)-40:], got, want)
		}
	}
}
