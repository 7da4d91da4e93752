package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
)

// Terminal says how text for people is to be made: diagnostics are shown with
// the lines of the files, which the host has read.
type Terminal struct {
	// Color says whether ANSI sequences may be used.
	Color bool
	// Width is in columns; 0 means that lines may be of any length.
	Width int
}

// Configuration is what a host does with its configuration while it runs.
type Configuration interface {
	// Reload reads the host's configuration again, changes what runs to be as
	// it says, and returns when that is done. A configuration with a fault
	// changes nothing; the error is a *RefusedError then.
	Reload(ctx context.Context, terminal Terminal) (Plan, error)
	// Plan says what a reload would do if the configuration were read from in.
	// Without paths it is the host's own, read with the values of variables that
	// in adds.
	Plan(ctx context.Context, in config.Input, terminal Terminal) (Plan, error)
}

// Plan is the answer to POST /v1/reload, where it was carried out, and POST
// /v1/plan, where it was not. Values of variables are never in it.
type Plan struct {
	Services []supervise.Step `json:"services"`
	// HostUpdates are the settings of the host block that change in place.
	HostUpdates []string `json:"hostUpdates,omitempty"`
	// HostRestart are those that take effect when the host is started again.
	HostRestart []string `json:"hostRestart,omitempty"`
	// Diagnostics are the warnings about the configuration, for people.
	Diagnostics string `json:"diagnostics,omitempty"`
}

// Changes reports whether there is anything to change.
func (p Plan) Changes() bool {
	for _, step := range p.Services {
		if step.Action != supervise.Keep {
			return true
		}
	}
	return len(p.HostUpdates)+len(p.HostRestart) > 0
}

// RefusedError says that a configuration has a fault.
type RefusedError struct {
	Message string
	// Diagnostics are all faults, for people.
	Diagnostics string
}

func (e *RefusedError) Error() string { return e.Message }

// maxInput bounds the body of a request for a plan, in bytes.
const maxInput = 1 << 20

// HandleConfiguration has the server answer POST /v1/reload and POST /v1/plan
// too. It is called before Serve.
func (s *Server) HandleConfiguration(c Configuration) {
	s.handle("POST /v1/reload", func(w http.ResponseWriter, r *http.Request) {
		plan, err := c.Reload(r.Context(), terminalOf(r.URL.Query()))
		replyPlan(w, plan, err)
	}, "color", "width")
	s.handle("POST /v1/plan", func(w http.ResponseWriter, r *http.Request) {
		// Not in the query: it may hold secrets, and is not small.
		var in config.Input
		body := http.MaxBytesReader(w, r.Body, maxInput)
		if err := json.NewDecoder(body).Decode(&in); err != nil && !errors.Is(err, io.EOF) {
			reply(w, http.StatusBadRequest, Error{Message: "the body is not what a configuration is read from: " + err.Error()})
			return
		}
		plan, err := c.Plan(r.Context(), in, terminalOf(r.URL.Query()))
		replyPlan(w, plan, err)
	}, "color", "width")
}

func terminalOf(query url.Values) Terminal {
	width, _ := strconv.Atoi(query.Get("width"))
	return Terminal{Color: query.Get("color") == "true", Width: max(0, width)}
}

func replyPlan(w http.ResponseWriter, plan Plan, err error) {
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		reply(w, http.StatusUnprocessableEntity, Error{Message: refused.Message, Diagnostics: refused.Diagnostics})
	case err != nil:
		reply(w, statusCode(err), Error{Message: err.Error()})
	default:
		plan.Services = append([]supervise.Step{}, plan.Services...) // a list, even of none
		reply(w, http.StatusOK, plan)
	}
}

func (t Terminal) query() url.Values {
	return url.Values{"color": {strconv.FormatBool(t.Color)}, "width": {strconv.Itoa(t.Width)}}
}

// Reload has the host read its configuration again.
func (c *Client) Reload(ctx context.Context, terminal Terminal) (Plan, error) {
	var plan Plan
	err := c.do(ctx, http.MethodPost, "/v1/reload?"+terminal.query().Encode(), &plan)
	return plan, err
}

// Plan asks what a reload would do if the configuration were read from in, whose
// paths are absolute, or, without any, what the host's own would do.
func (c *Client) Plan(ctx context.Context, in config.Input, terminal Terminal) (Plan, error) {
	var plan Plan
	body, err := json.Marshal(in)
	if err != nil {
		return plan, err
	}
	err = c.send(ctx, http.MethodPost, "/v1/plan?"+terminal.query().Encode(), bytes.NewReader(body), &plan)
	return plan, err
}
