package control

import (
	"context"
	"net/http"

	"github.com/plughost/plughost/host/internal/reclaim"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/shared/marker"
)

// Processes is what a host knows of the processes of its installation.
type Processes interface {
	// Instances are the records of what the host has launched and not ended.
	Instances() ([]registry.Record, error)
	// Reclaim ends what belongs to the installation and is none of those.
	Reclaim(ctx context.Context) (reclaim.Report, error)
}

// Reclaimed is the answer to POST /v1/reclaim.
type Reclaimed struct {
	Stopped  []ReclaimedInstance `json:"stopped"`
	Groups   []ReclaimedGroup    `json:"groups"`
	Unknown  []UnknownProcess    `json:"unknown"`
	Failures []string            `json:"failures"`
}

// ReclaimedInstance is an instance of which something lived and was ended.
type ReclaimedInstance struct {
	Kind     marker.Kind `json:"kind"`
	Service  string      `json:"service"`
	Instance string      `json:"instance"`
	// Processes is how many were ended.
	Processes int `json:"processes"`
}

// ReclaimedGroup is the control group of an instance in which something lived
// that could not be identified, and was ended.
type ReclaimedGroup struct {
	Instance string `json:"instance"`
	// Processes is how many were ended.
	Processes int `json:"processes"`
}

// UnknownProcess is a recorded process that could not be identified.
type UnknownProcess struct {
	Kind    marker.Kind `json:"kind"`
	Service string      `json:"service"`
	PID     int         `json:"pid"`
	Reason  string      `json:"reason"`
}

// NewReclaimed puts a report into the words of the API.
func NewReclaimed(report reclaim.Report) Reclaimed {
	r := Reclaimed{Stopped: []ReclaimedInstance{}, Groups: []ReclaimedGroup{}, Unknown: []UnknownProcess{}, Failures: []string{}}
	for _, s := range report.Stopped {
		n := len(s.Result.Swept)
		if s.PID != 0 {
			n++
		}
		r.Stopped = append(r.Stopped, ReclaimedInstance{s.Identity.Kind, s.Identity.Service, s.Identity.Instance, n})
	}
	for _, g := range report.Groups {
		if len(g.PIDs) > 0 {
			r.Groups = append(r.Groups, ReclaimedGroup{g.Instance, len(g.PIDs)})
		}
	}
	for _, u := range report.Unknown {
		id := u.Record.Identity
		r.Unknown = append(r.Unknown, UnknownProcess{id.Kind, id.Service, u.Record.PID, u.Reason})
	}
	for _, failure := range report.Failures {
		r.Failures = append(r.Failures, failure.Error())
	}
	return r
}

// HandleProcesses has the server answer GET /v1/instances and POST /v1/reclaim
// too. It is called before Serve.
func (s *Server) HandleProcesses(p Processes) {
	s.handle("GET /v1/instances", func(w http.ResponseWriter, _ *http.Request) {
		records, err := p.Instances()
		if err != nil {
			reply(w, http.StatusInternalServerError, Error{Message: err.Error()})
			return
		}
		reply(w, http.StatusOK, append([]registry.Record{}, records...)) // a list, even of none
	})
	s.handle("POST /v1/reclaim", func(w http.ResponseWriter, r *http.Request) {
		report, err := p.Reclaim(r.Context())
		if err != nil {
			reply(w, http.StatusInternalServerError, Error{Message: err.Error()})
			return
		}
		reply(w, http.StatusOK, NewReclaimed(report))
	})
}

// Instances asks for the records of the host's instances.
func (c *Client) Instances(ctx context.Context) ([]registry.Record, error) {
	var records []registry.Record
	err := c.do(ctx, http.MethodGet, "/v1/instances", &records)
	return records, err
}

// Reclaim has the host end what belongs to its installation and is none of its
// instances.
func (c *Client) Reclaim(ctx context.Context) (Reclaimed, error) {
	var reclaimed Reclaimed
	err := c.do(ctx, http.MethodPost, "/v1/reclaim", &reclaimed)
	return reclaimed, err
}
