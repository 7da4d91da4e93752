// Package metrics counts what happens to a host and its services, for
// Prometheus. What can be told apart by a label is bounded by the configuration:
// service and kind are those of a configured service, and state is one of the
// states of package supervise.
package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/events"
	"github.com/plughost/plughost/host/internal/logs"
	"github.com/plughost/plughost/host/internal/supervise"
)

// maxScrapes is how many scrapes are answered at a time.
const maxScrapes = 4

// states are all that a service can be in.
func states() []supervise.State {
	return []supervise.State{
		supervise.Waiting, supervise.Starting, supervise.Ready, supervise.Unhealthy,
		supervise.Stopping, supervise.Backoff, supervise.Stopped, supervise.Failed,
	}
}

// Metrics are the counters of a host. Its methods may be called concurrently.
type Metrics struct {
	requests
	*calls
	registry    *prometheus.Registry
	transitions *prometheus.CounterVec
	starts      *prometheus.HistogramVec
	stops       *prometheus.HistogramVec
	orphans     prometheus.Counter
	leftAlone   prometheus.Counter
	portsHeld   *prometheus.CounterVec

	mu    sync.Mutex
	since map[config.Ref]time.Time // when a start or a stop that is under way began
}

// New makes the counters of a host of the given version, with those of the Go
// runtime and of the process.
func New(version string) *Metrics {
	service := []string{"kind", "service"}
	// A plugin is ready in some milliseconds, or has to load a model first.
	startBuckets := []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}
	m := &Metrics{
		requests: newRequests(),
		calls:    newCalls(),
		registry: prometheus.NewRegistry(),
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plughost_service_transitions_total",
			Help: "How often a service came into a state.",
		}, append(service, "state")),
		starts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "plughost_service_start_duration_seconds",
			Help:    "From the beginning of a start to ready, for starts that got there.",
			Buckets: startBuckets,
		}, service),
		stops: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "plughost_service_stop_duration_seconds",
			Help:    "From the beginning of a stop, asked for or not, until nothing of the instance was left or it was given up.",
			Buckets: startBuckets,
		}, service),
		orphans: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plughost_orphans_reclaimed_total",
			Help: "Instances of which something was left without a host, and was ended.",
		}),
		leftAlone: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plughost_processes_left_alone_total",
			Help: "Recorded processes that were not touched: another's by now, or not to be identified.",
		}),
		portsHeld: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plughost_service_port_held_total",
			Help: "Starts that failed since the port of the service was held by somebody else.",
		}, service),
		since: make(map[config.Ref]time.Time),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "plughost_build_info",
		Help:        "Always 1; the label says the version.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	m.registry.MustRegister(
		m.transitions, m.starts, m.stops, m.orphans, m.leftAlone, m.portsHeld, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.registry.MustRegister(append(m.collectors(), m.made, m.took)...)
	return m
}

// Watch counts a transition. It does not block.
func (m *Metrics) Watch(change supervise.Change) {
	kind, name := string(change.Service.Kind), change.Service.Name
	m.transitions.WithLabelValues(kind, name, string(change.State)).Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	if began, ok := m.since[change.Service]; ok {
		took := change.Since.Sub(began).Seconds()
		switch {
		case change.From == supervise.Starting && change.State == supervise.Ready:
			m.starts.WithLabelValues(kind, name).Observe(took)
		case change.From == supervise.Stopping:
			m.stops.WithLabelValues(kind, name).Observe(took)
		}
		delete(m.since, change.Service)
	}
	if change.State == supervise.Starting || change.State == supervise.Stopping {
		m.since[change.Service] = change.Since
	}
}

// Forget drops what was counted of a service that is no longer configured.
func (m *Metrics) Forget(service config.Ref) {
	labels := prometheus.Labels{"kind": string(service.Kind), "service": service.Name}
	m.transitions.DeletePartialMatch(labels)
	m.starts.DeletePartialMatch(labels)
	m.stops.DeletePartialMatch(labels)
	m.portsHeld.DeletePartialMatch(labels)
	m.requests.forget(service)
	if service.Kind == config.KindMCP {
		m.calls.forget(service.Name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.since, service)
}

// Count counts an event that is no transition. It does not block.
func (m *Metrics) Count(event events.Event) {
	switch event.Type {
	case events.OrphanReclaimed:
		m.orphans.Inc()
	case events.ProcessLeftAlone:
		m.leftAlone.Inc()
	}
}

// PortHeld counts a start that failed since somebody else has the port of the
// service.
func (m *Metrics) PortHeld(service config.Ref) {
	m.portsHeld.WithLabelValues(string(service.Kind), service.Name).Inc()
}

// Observe adds what is asked for at each scrape: the services as they are then,
// and what was written to their logs. It is called once.
func (m *Metrics) Observe(statuses func() []supervise.Status, counts func(config.Ref) logs.Counts) {
	m.registry.MustRegister(&snapshot{statuses: statuses, counts: counts, descriptions: describe()})
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}
