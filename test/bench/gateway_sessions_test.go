//go:build linux

package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// openers is how many clients open sessions at once.
const openers = 8

// openSessions opens sessions at an endpoint, of which nobody says anything any
// more.
func openSessions(tb testing.TB, url string, n int) {
	tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: openers}
	defer transport.CloseIdleConnections()
	var all sync.WaitGroup
	for opener := range openers {
		all.Go(func() {
			for i := opener; i < n && !tb.Failed(); i += openers {
				c := &mcpClient{url: url, http: &http.Client{Transport: transport}}
				if err := c.initialize(); err != nil {
					tb.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// waitNoSessions waits until no session of a service is left.
func (h *host) waitNoSessions(endpoint, service string) {
	h.b.Helper()
	h.eventually("the sessions are over", func() bool {
		return h.metric(endpoint, fmt.Sprintf("plughost_mcp_sessions{service=%q}", service)) == 0
	})
}

// eventually waits until something holds.
func (h *host) eventually(what string, holds func() bool) {
	h.b.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			h.b.Fatalf("waited in vain until %s", what)
		}
	}
}

// metric reads one of the host's metrics.
func (h *host) metric(endpoint, name string) float64 {
	h.b.Helper()
	response, err := http.Get(strings.TrimSuffix(endpoint, "/mcp") + "/metrics")
	if err != nil {
		h.b.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		value, found := strings.CutPrefix(lines.Text(), name+" ")
		if !found {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			h.b.Fatal(err)
		}
		return number
	}
	h.b.Fatalf("the host has no metric %s: %v", name, lines.Err())
	return 0
}

// sessionsEnd is more of the host block: sessions end when nobody used them for
// so long.
func sessionsEnd(after time.Duration) string {
	return fmt.Sprintf("  gateway {\n    limits {\n      session_idle = %q\n    }\n  }\n", after)
}

const mebibyte = 1 << 20

// Sessions that their clients leave without a word cost memory until their time
// is over, and not after.
func TestAbandonedSessionsGiveTheirMemoryBack(t *testing.T) {
	needBinaries(t, "plughost", "mcp-example")
	h := startHost(t, examples(1), sessionsEnd(3*time.Second))
	of := processes{"host": h.cmd.Process.Pid, "plugin": h.waitState("s0", "ready").pid}
	endpoint := h.waitEndpoint()
	openSessions(t, endpoint+"/s0", 50) // what is made once is made now
	before := of.rss(t)
	openSessions(t, endpoint+"/s0", 1500)
	for name, size := range of.rss(t) {
		if grown := size - before[name]; grown < 10*mebibyte {
			t.Errorf("1500 sessions cost the %s %d kB, which says nothing", name, grown>>10)
		}
	}
	h.waitNoSessions(endpoint, "s0")
	for name, pid := range of {
		h.eventually("the "+name+" has given memory back", func() bool {
			return rss(t, pid) < before[name]+10*mebibyte
		})
	}
	h.stop()
}

// Sessions of clients that say nothing: what one costs the host and its plugin,
// without and with a stream on which the client listens, and what is left of
// many when their time is over.
func BenchmarkSessions(b *testing.B) {
	needBinaries(b, "plughost", "mcp-example")
	for _, kind := range []struct {
		name    string
		listens bool
	}{{"silent", false}, {"listening", true}} {
		b.Run("idle="+kind.name, func(b *testing.B) { idleSessions(b, kind.listens) })
	}
	b.Run("abandoned", abandonedSessions)
}

// processes are those whose memory counts, by name.
type processes map[string]int

// startForSessions starts a host with one plugin, and waits for both.
func startForSessions(b *testing.B, hostBlock ...string) (h *host, url string, of processes) {
	b.Helper()
	h = startHost(b, examples(1), hostBlock...)
	of = processes{"host": h.cmd.Process.Pid, "plugin": h.waitState("s0", "ready").pid}
	url = h.waitEndpoint() + "/s0"
	openSessions(b, url, 50) // what is made once is made now
	return h, url, of
}

func (of processes) rss(tb testing.TB) map[string]int64 {
	tb.Helper()
	sizes := make(map[string]int64)
	for name, pid := range of {
		sizes[name] = rss(tb, pid)
	}
	return sizes
}

func idleSessions(b *testing.B, listen bool) {
	var each map[string]float64
	for b.Loop() {
		each = costOfSessions(b, 1000, listen)
	}
	for name, bytes := range each {
		b.ReportMetric(bytes/1000, name+"-kB/session")
	}
	b.ReportMetric(0, "ns/op")
	if !listen {
		targets{{what: "host: kB per idle session", got: each["host"] / 1000, atMost: 25}}.print(b.Name())
	}
}

// costOfSessions is what one of n sessions costs each process, in bytes.
func costOfSessions(b *testing.B, n int, listen bool) map[string]float64 {
	b.Helper()
	h, url, of := startForSessions(b)
	before := of.rss(b)
	if listen {
		defer openListening(b, url, n)()
	} else {
		openSessions(b, url, n)
	}
	each := make(map[string]float64)
	for name, size := range of.rss(b) {
		each[name] = float64(size-before[name]) / float64(n)
	}
	h.stop()
	return each
}

// openListening opens sessions whose clients listen until they hang up.
func openListening(b *testing.B, url string, n int) (hangUp func()) {
	b.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 1}
	ctx, cancel := context.WithCancel(b.Context())
	var streams []io.Closer
	for range n {
		c := &mcpClient{url: url, http: &http.Client{Transport: transport}}
		if err := c.initialize(); err != nil {
			b.Fatal(err)
		}
		stream, err := c.listen(ctx)
		if err != nil {
			b.Fatal(err)
		}
		streams = append(streams, stream)
	}
	return func() {
		cancel()
		for _, stream := range streams {
			_ = stream.Close()
		}
		transport.CloseIdleConnections()
	}
}

func abandonedSessions(b *testing.B) {
	const n, rounds = 5000, 3
	// Longer than it takes to open them, so that they are all there at once.
	h, url, of := startForSessions(b, sessionsEnd(15*time.Second))
	before := of.rss(b)
	var t targets
	for round := range rounds {
		openSessions(b, url, n)
		peak := of.rss(b)
		h.waitNoSessions(strings.TrimSuffix(url, "/s0"), "s0")
		<-time.After(12 * time.Second) // memory is given back every 10 s at most
		after := of.rss(b)
		for name := range of {
			b.ReportMetric(float64(before[name])/mebibyte, name+"-before-MiB")
			b.ReportMetric(float64(peak[name])/mebibyte, name+"-peak-MiB")
			b.ReportMetric(float64(after[name])/mebibyte, name+"-after-MiB")
			t = append(t, target{
				what: fmt.Sprintf("%s: MiB more after round %d of %d abandoned sessions", name, round+1, n),
				got:  float64(after[name]-before[name]) / mebibyte, atMost: 10,
			})
		}
	}
	b.ReportMetric(0, "ns/op")
	t.print(b.Name())
	h.stop()
}

// A session in which very much is called: it costs no more in the end than
// after its first calls.
func BenchmarkLastingSession(b *testing.B) {
	needBinaries(b, "plughost", "faultplugin")
	const first, all = 10_000, 100_000
	h := startHost(b, service("c", "faultplugin", ""))
	of := processes{"host": h.cmd.Process.Pid, "plugin": h.waitState("c", "ready").pid}
	s := subject{call: openEncoded(b, h.waitEndpoint()+"/c", "echo", 16)}
	var took time.Duration
	s.calls(b, 16, first, &took)
	before := of.rss(b)
	s.calls(b, 16, all-first, &took)
	after := of.rss(b)
	var t targets
	for name := range of {
		b.ReportMetric(float64(after[name])/mebibyte, name+"-MiB")
		t = append(t, target{
			what: fmt.Sprintf("%s: MiB more after %d calls than after %d", name, all, first),
			got:  float64(after[name]-before[name]) / mebibyte, atMost: 10,
		})
	}
	b.ReportMetric(float64(all-first)/took.Seconds(), "calls/s")
	b.ReportMetric(0, "ns/op")
	t.print(b.Name())
	h.stop()
}
