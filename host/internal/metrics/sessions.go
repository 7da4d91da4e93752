package metrics

import "github.com/prometheus/client_golang/prometheus"

// sessions collects how many sessions of clients there are at a scrape.
type sessions struct {
	count func() map[string]int
	desc  *prometheus.Desc
}

// ObserveSessions adds the sessions that there are at each scrape, by the service
// of their endpoint. It is called once.
func (m *Metrics) ObserveSessions(count func() map[string]int) {
	m.registry.MustRegister(&sessions{count, prometheus.NewDesc("plughost_mcp_sessions",
		"Sessions of MCP clients, by the service of their endpoint (none for the one that joins all).", []string{"service"}, nil)})
}

// Describe implements prometheus.Collector.
func (s *sessions) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

// Collect implements prometheus.Collector.
func (s *sessions) Collect(to chan<- prometheus.Metric) {
	for service, n := range s.count() {
		to <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(n), service)
	}
}
