//go:build linux

package bench

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// unreadSize is how many bytes the answer has that is not read.
const unreadSize = 48 << 20

// Calls of a service, alone and beside a client of the same service that has
// asked for a large answer and does not read it, in turns.
func BenchmarkUnread(b *testing.B) {
	needBinaries(b, "plughost", "faultplugin")
	h := startHost(b, service("c", "faultplugin", ""))
	url := h.waitEndpoint() + "/c"
	const callers = 16
	s := subject{call: openEncoded(b, url, "echo", callers)}
	alone := func(b *testing.B) (took time.Duration) {
		s.calls(b, callers, callsATurn, &took)
		return took
	}
	medians := inTurns(b, callTurns, contestant{"alone", alone}, contestant{"beside", func(b *testing.B) time.Duration {
		defer leaveUnread(b, url)()
		return alone(b)
	}})
	beside := float64(medians["alone"]) / float64(medians["beside"])
	b.ReportMetric(beside, "beside-x-alone")
	targets{{what: "calls/s beside a client that does not read, of those without", got: beside, atLeast: 0.9}}.print(b.Name())
	h.stop()
}

// leaveUnread asks for a large answer in a session of its own, and reads no more
// of it than its first byte. The function that it returns hangs up.
func leaveUnread(b *testing.B, url string) (hangUp func()) {
	b.Helper()
	c := newMCPClient(b, url, 1)
	address, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"large","arguments":{"bytes":%d}}}`, unreadSize)
	_, err = fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"Mcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", path, address, c.session, len(body), body)
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	if err != nil {
		b.Fatal(err)
	}
	return func() { _ = conn.Close() }
}
