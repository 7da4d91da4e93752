// Package control is the API by which command lines steer a running host:
// HTTP and JSON on a Unix socket that only the host's own user can reach.
package control

import (
	"time"

	"github.com/plughost/plughost/host/internal/supervise"
)

// Status is the answer to GET /v1/status.
type Status struct {
	Version      string    `json:"version"`
	PID          int       `json:"pid"`
	Installation string    `json:"installation"`
	StateDir     string    `json:"stateDir"`
	Started      time.Time `json:"started"`
	// Gateway is the base URL of the MCP and A2A endpoints.
	Gateway string `json:"gateway"`
	// Ready says whether every service is.
	Ready    bool            `json:"ready"`
	Services []ServiceStatus `json:"services"`
}

// ServiceStatus is how a service is.
type ServiceStatus struct {
	supervise.Status
	// Usage is what its instance takes of the machine, if that was asked for
	// and there is one.
	Usage *Usage `json:"usage,omitempty"`
}

// Usage is what all processes of an instance take of the machine together.
type Usage struct {
	// MemoryBytes are those that are resident, or charged to the instance's
	// control group.
	MemoryBytes int64 `json:"memoryBytes"`
	// CPUSeconds is the processors' time that was used since it was started.
	CPUSeconds float64 `json:"cpuSeconds"`
	Processes  int     `json:"processes"`
}

// Error is the body of an answer that is not 2xx.
type Error struct {
	Message string `json:"error"`
	// Diagnostics are all faults of a configuration that was refused.
	Diagnostics string `json:"diagnostics,omitempty"`
}

// Verb is what can be asked of a service: POST /v1/services/{kind}/{name}/{verb}.
// The answer comes when it is done.
type Verb string

// The verbs.
const (
	Start   Verb = "start"
	Stop    Verb = "stop"
	Restart Verb = "restart"
)
