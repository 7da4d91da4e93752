package metrics

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/guard"
)

// requests count what comes to the gateway. It implements guard.Observer.
type requests struct {
	refused  *prometheus.CounterVec
	served   *prometheus.CounterVec
	received *prometheus.CounterVec
	sent     *prometheus.CounterVec
}

func newRequests() requests {
	endpoint := []string{"kind", "service"}
	r := requests{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plughost_gateway_refused_total",
			Help: "Requests that were not let pass, by reason.",
		}, []string{"reason"}),
		served: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plughost_gateway_requests_total",
			Help: "Requests that were answered, by the service of their endpoint (none for one that joins all) and the HTTP status.",
		}, append(endpoint, "code")),
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plughost_gateway_received_bytes_total",
			Help: "Bytes of the bodies of requests.",
		}, endpoint),
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plughost_gateway_sent_bytes_total",
			Help: "Bytes of the bodies of answers.",
		}, endpoint),
	}
	for _, reason := range guard.Reasons() {
		r.refused.WithLabelValues(string(reason)) // 0 is a finding, too
	}
	return r
}

// Refused implements guard.Observer.
func (r requests) Refused(reason guard.Reason) { r.refused.WithLabelValues(string(reason)).Inc() }

// Served implements guard.Observer.
func (r requests) Served(e guard.Exchange) {
	kind, name := string(e.Service.Kind), e.Service.Name
	r.served.WithLabelValues(kind, name, strconv.Itoa(e.Code)).Inc()
	r.received.WithLabelValues(kind, name).Add(float64(e.Received))
	r.sent.WithLabelValues(kind, name).Add(float64(e.Sent))
}

func (r requests) collectors() []prometheus.Collector {
	return []prometheus.Collector{r.refused, r.served, r.received, r.sent}
}

func (r requests) forget(service config.Ref) {
	labels := prometheus.Labels{"kind": string(service.Kind), "service": service.Name}
	for _, vec := range []*prometheus.CounterVec{r.served, r.received, r.sent} {
		vec.DeletePartialMatch(labels)
	}
}
