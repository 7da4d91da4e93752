package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/logs"
	"github.com/plughost/plughost/host/internal/supervise"
)

// snapshot collects what others count, so that it has no state that could be
// another than theirs: a service that is no longer there has no series.
type snapshot struct {
	statuses func() []supervise.Status
	counts   func(config.Ref) logs.Counts
	descriptions
}

type descriptions struct {
	state, restarts, healthFailures, lines, bytes, lost *prometheus.Desc
}

func describe() descriptions {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"kind", "service"}, labels...), nil)
	}
	return descriptions{
		state:          desc("plughost_service_state", "1 for the state that a service is in, 0 for the others.", "state"),
		restarts:       desc("plughost_service_restarts_total", "Starts of a service after its first."),
		healthFailures: desc("plughost_service_health_check_failures_total", "Health checks of a service that failed."),
		lines:          desc("plughost_service_log_lines_total", "Lines written to the log of a service: its own, and what the host says of it."),
		bytes:          desc("plughost_service_log_bytes_total", "Bytes written to the log of a service."),
		lost:           desc("plughost_service_log_lines_lost_total", "Lines that could not be written to the log of a service."),
	}
}

// Describe implements prometheus.Collector.
func (s *snapshot) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.state, s.restarts, s.healthFailures, s.lines, s.bytes, s.lost} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *snapshot) Collect(to chan<- prometheus.Metric) {
	for _, status := range s.statuses() {
		kind, name := string(status.Service.Kind), status.Service.Name
		counter := func(d *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, kind, name)
		}
		for _, state := range states() {
			value := 0.0
			if status.State == state {
				value = 1
			}
			to <- prometheus.MustNewConstMetric(s.state, prometheus.GaugeValue, value, kind, name, string(state))
		}
		counter(s.restarts, float64(status.Restarts))
		counter(s.healthFailures, float64(status.HealthFailures))
		counts := s.counts(status.Service)
		counter(s.lines, float64(counts.Lines))
		counter(s.bytes, float64(counts.Bytes))
		counter(s.lost, float64(counts.Lost))
	}
}
