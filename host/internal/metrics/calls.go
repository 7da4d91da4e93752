package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxTools is how many tools of a service are told apart. A plugin may have
// thousands, each of which would be some series; the others are counted as one.
const maxTools = 500

// otherTools is the tool of those that are not told apart. No tool has that
// name.
const otherTools = "(other)"

// calls count the calls of tools. It implements gateway.CallObserver.
type calls struct {
	made *prometheus.CounterVec
	took *prometheus.HistogramVec

	mu    sync.Mutex
	tools map[string]map[string]bool // by service
}

func newCalls() *calls {
	return &calls{
		made: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plughost_tool_calls_total",
			Help: "Calls of a tool that have ended, by outcome.",
		}, []string{"service", "tool", "outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "plughost_tool_call_duration_seconds",
			Help:    "From a call of a tool to its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"service", "tool"}),
		tools: make(map[string]map[string]bool),
	}
}

// Called implements gateway.CallObserver.
func (c *calls) Called(service, tool, outcome string, took time.Duration) {
	tool = c.known(service, tool)
	c.made.WithLabelValues(service, tool, outcome).Inc()
	c.took.WithLabelValues(service, tool).Observe(took.Seconds())
}

// known is the name by which a tool is counted.
func (c *calls) known(service, tool string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	tools := c.tools[service]
	switch {
	case tools[tool]:
		return tool
	case len(tools) >= maxTools:
		return otherTools
	case tools == nil:
		tools = make(map[string]bool)
		c.tools[service] = tools
	}
	tools[tool] = true
	return tool
}

func (c *calls) forget(service string) {
	labels := prometheus.Labels{"service": service}
	c.made.DeletePartialMatch(labels)
	c.took.DeletePartialMatch(labels)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tools, service)
}
