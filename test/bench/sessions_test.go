//go:build linux

package bench

import (
	"bufio"
	"fmt"
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
				c := &mcpClient{b: tb, url: url, http: &http.Client{Transport: transport}}
				c.initialize()
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
	pids := map[string]int{"host": h.cmd.Process.Pid, "plugin": h.waitState("s0", "ready").pid}
	endpoint := h.waitEndpoint()
	openSessions(t, endpoint+"/s0", 50) // what is made once is made now
	before := make(map[string]int64)
	for name, pid := range pids {
		before[name] = rss(t, pid)
	}
	openSessions(t, endpoint+"/s0", 1500)
	for name, pid := range pids {
		if grown := rss(t, pid) - before[name]; grown < 10*mebibyte {
			t.Errorf("1500 sessions cost the %s %d kB, which says nothing", name, grown>>10)
		}
	}
	h.waitNoSessions(endpoint, "s0")
	for name, pid := range pids {
		h.eventually("the "+name+" has given memory back", func() bool {
			return rss(t, pid) < before[name]+10*mebibyte
		})
	}
	h.stop()
}
