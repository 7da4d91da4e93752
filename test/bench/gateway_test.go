//go:build linux

package bench

import (
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/plughost/plughost/test/freeport"
)

// Turns are many and short, so that what else the machine does hits all alike.
const (
	callsATurn = 250
	callTurns  = 25
	// allocatingCalls are those of which it is seen what they allocate.
	allocatingCalls = 2000
)

// endpoint is where the tool can be called.
type endpoint struct {
	name, url, tool string
	gateway         []int          // the processes of the gateway that is before the server
	allocated       func() float64 // what the gateway has allocated until now, in bytes; may be nil
}

// figures are what one turn cost, per call.
type figures struct {
	took      time.Duration // by the clock of all callers together
	p50       time.Duration
	cpu       time.Duration // of the gateway
	allocated float64       // by the gateway, in bytes
}

func (f figures) perSecond() float64 { return float64(time.Second) / float64(f.took) }

// measured are the medians of all turns, by the endpoint's name.
type measured map[string]figures

// One call of a tool that says what it is told: of the plugin on its own port,
// through the endpoint of its service, through the one that joins all, of the
// same server on standard input and output behind the bridge, and behind other
// gateways if they are installed (npm ci in peers). All speak in turns, with 1
// and with 16 callers in one session.
func BenchmarkCall(b *testing.B) {
	needBinaries(b, "plughost", "faultplugin", "mcp-bridge")
	program := filepath.Join(binaries, "faultplugin")
	port := freeport.Take(b, 1)[0]
	h := startHost(b, service("c", "faultplugin", fmt.Sprintf("  port = %d\n", port))+
		fmt.Sprintf("service \"mcp\" \"e\" {\n  exec = [%q]\n}\n", program))
	bridge := h.waitState("e", "ready").pid
	base, pid := h.waitEndpoint(), h.cmd.Process.Pid
	allocated := func() float64 { return h.metric(base, "go_memstats_alloc_bytes_total") }
	const tool = "echo"
	endpoints := append([]endpoint{
		{"direct", fmt.Sprintf("http://127.0.0.1:%d/mcp", port), tool, nil, nil},
		{"service", base + "/c", tool, []int{pid}, allocated},
		{"joined", base, "c__" + tool, []int{pid}, allocated},
		{"exec", base + "/e", tool, []int{pid, bridge}, allocated},
	}, startPeers(b, program, tool)...)
	// What the callers take of the machine they take from those who are measured.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for _, client := range clients {
		b.Run("client="+client.name, func(b *testing.B) {
			by := make(map[int]measured)
			for _, callers := range []int{1, 16} {
				b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
					subjects := make([]subject, len(endpoints))
					for i, e := range endpoints {
						subjects[i] = subject{e, client.open(b, e.url, e.tool, callers)}
					}
					by[callers] = compareCalls(b, subjects, callers)
				})
			}
			callTargets(by[1], by[16]).print(b.Name())
		})
	}
	h.stop()
}

// subject is an endpoint with a session.
type subject struct {
	endpoint
	call func(n int) error
}

// compareCalls has all subjects called in turns by so many callers.
func compareCalls(b *testing.B, subjects []subject, callers int) measured {
	b.Helper()
	turns := make(map[string][]figures)
	for b.Loop() {
		alternate(callTurns, len(subjects), func(i int, counts bool) {
			f := subjects[i].turn(b, callers)
			if name := subjects[i].name; counts {
				turns[name] = append(turns[name], f)
			}
		})
	}
	medians := make(measured)
	for _, s := range subjects {
		f := medianFigures(turns[s.name])
		if s.allocated != nil {
			f.allocated = s.allocation(b, callers)
		}
		medians[s.name] = f
		b.ReportMetric(f.perSecond(), s.name+"-calls/s")
		b.ReportMetric(float64(f.p50.Microseconds())/1000, s.name+"-p50-ms")
		if s.gateway != nil {
			b.ReportMetric(float64(f.cpu.Nanoseconds())/1000, s.name+"-cpu-us")
		}
		if s.allocated != nil {
			b.ReportMetric(f.allocated/1000, s.name+"-alloc-kB")
		}
	}
	b.ReportMetric(0, "ns/op")
	return medians
}

// turn makes the calls of one turn.
func (s *subject) turn(b *testing.B, callers int) figures {
	b.Helper()
	var f figures
	for _, pid := range s.gateway {
		f.cpu -= cpu(b, pid)
	}
	each := s.calls(b, callers, callsATurn, &f.took)
	for _, pid := range s.gateway {
		f.cpu += cpu(b, pid)
	}
	f.took /= callsATurn
	f.cpu /= callsATurn
	f.p50 = median(each)
	return f
}

// allocation is what the gateway allocates for a call, in bytes. It is seen apart
// from the turns: to ask for it is work for the gateway, and garbage.
func (s *subject) allocation(b *testing.B, callers int) float64 {
	b.Helper()
	first := s.allocated()
	before := s.allocated()
	question := before - first
	var took time.Duration
	s.calls(b, callers, allocatingCalls, &took)
	return (s.allocated() - before - question) / allocatingCalls
}

// calls has so many callers make n calls, and returns how long each took.
func (s *subject) calls(b *testing.B, callers, n int, took *time.Duration) []time.Duration {
	b.Helper()
	each := make([]time.Duration, n)
	var all sync.WaitGroup
	start := time.Now()
	for caller := range callers {
		all.Go(func() {
			for i := caller; i < n; i += callers {
				begin := time.Now()
				if err := s.call(i + 1); err != nil {
					b.Error(err)
					return
				}
				each[i] = time.Since(begin)
			}
		})
	}
	all.Wait()
	*took = time.Since(start)
	return each
}

// medianFigures is the median of each figure by itself.
func medianFigures(all []figures) figures {
	return figures{
		took: median(each(all, func(f figures) time.Duration { return f.took })),
		p50:  median(each(all, func(f figures) time.Duration { return f.p50 })),
		cpu:  median(each(all, func(f figures) time.Duration { return f.cpu })),
	}
}

func each[T any](all []figures, figure func(figures) T) []T {
	var values []T
	for _, f := range all {
		values = append(values, figure(f))
	}
	return values
}

// callTargets compares what was measured with 1 caller and with 16.
func callTargets(one, many measured) targets {
	if one == nil || many == nil {
		return nil // something was selected
	}
	per := func(name string) float64 { return many[name].perSecond() }
	t := targets{
		{what: "service: calls/s of direct, 16 callers", got: per("service") / per("direct"), atLeast: 1},
		{what: "service: p50 of direct, 1 caller", got: float64(one["service"].p50) / float64(one["direct"].p50), atMost: 1.4},
		{what: "joined: calls/s of direct, 16 callers", got: per("joined") / per("direct"), atLeast: 0.85},
		{what: "service: kB allocated a call, 16 callers", got: many["service"].allocated / 1000, atMost: 8},
	}
	var peers []figures
	for _, name := range peerNames {
		if f, there := many[name]; there {
			peers = append(peers, f)
		}
	}
	if len(peers) == 0 {
		return t
	}
	best := slices.MaxFunc(peers, func(a, b figures) int { return int(b.took - a.took) }).perSecond()
	cheapest := slices.MinFunc(peers, func(a, b figures) int { return int(a.cpu - b.cpu) }).cpu
	return append(t,
		target{what: "service: calls/s of the better peer, 16 callers", got: per("service") / best, atLeast: 2},
		target{what: "exec: calls/s of the better peer, 16 callers", got: per("exec") / best, atLeast: 1.5},
		target{what: "service: CPU of the better peer, 16 callers", got: float64(many["service"].cpu) / float64(cheapest), atMost: 0.22},
	)
}
