//go:build unix

package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/events"
	"github.com/plughost/plughost/host/internal/logs"
	"github.com/plughost/plughost/host/internal/reclaim"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/host/internal/supervise"
	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
)

// description is the document that says what the API is.
const description = "../../../docs/control-api.yaml"

func loadDescription(t *testing.T) *openapi3.T {
	t.Helper()
	loader := openapi3.NewLoader()
	document, err := loader.LoadFromFile(description)
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(loader.Context); err != nil {
		t.Fatalf("%s is no OpenAPI document: %v", description, err)
	}
	return document
}

// processes are ones that answer as they are told to.
type processes struct {
	records []registry.Record
	report  reclaim.Report
	err     error
}

func (p *processes) Instances() ([]registry.Record, error)           { return p.records, p.err }
func (p *processes) Reclaim(context.Context) (reclaim.Report, error) { return p.report, p.err }
func withAll(s *Server, p Processes, c Configuration, h *events.Hub, l Logs) {
	s.HandleProcesses(p)
	s.HandleConfiguration(c)
	s.HandleEvents(h)
	s.HandleLogs(l)
}

func TestDescriptionHasTheServersEndpoints(t *testing.T) {
	document := loadDescription(t)
	server := NewServer(&services{}, statusNow)
	withAll(server, &processes{}, &configuration{}, events.NewHub(time.Now(), 1), &fakeLogs{})
	described := make(map[string]*openapi3.Operation)
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			described[method+" "+path] = operation
		}
	}
	for _, route := range server.routes {
		operation, ok := described[route.pattern]
		if !ok {
			t.Errorf("%s is not described", route.pattern)
			continue
		}
		delete(described, route.pattern)
		var parameters []string
		for _, parameter := range operation.Parameters {
			if parameter.Value.In == openapi3.ParameterInQuery {
				parameters = append(parameters, parameter.Value.Name)
			}
		}
		want := slices.Sorted(slices.Values(route.parameters))
		if slices.Sort(parameters); !slices.Equal(parameters, want) {
			t.Errorf("%s is described with the parameters %q, and takes %q", route.pattern, parameters, want)
		}
	}
	for pattern := range described {
		t.Errorf("%s is described, and is not there", pattern)
	}
}

// members are the JSON members of a struct, and those of them that are always
// there.
func members(of reflect.Type) (all, required []string) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			inner, innerRequired := members(field.Type)
			all, required = append(all, inner...), append(required, innerRequired...)
		case name == "-", !field.IsExported():
		default:
			all = append(all, name)
			if !strings.Contains(options, "omit") {
				required = append(required, name)
			}
		}
	}
	slices.Sort(all)
	slices.Sort(required)
	return all, required
}

func TestDescriptionHasTheMembersOfAnswers(t *testing.T) {
	document := loadDescription(t)
	types := map[string]any{
		"Error": Error{}, "Ref": config.Ref{}, "Status": Status{}, "ServiceStatus": ServiceStatus{}, "Usage": Usage{},
		"Input": config.Input{}, "Plan": Plan{}, "Step": supervise.Step{}, "Change": config.Change{}, "Event": events.Event{}, "Entry": logs.Entry{},
		"Record": registry.Record{}, "Identity": marker.Identity{}, "Birth": probes.Birth{},
		"Reclaimed": Reclaimed{}, "ReclaimedInstance": ReclaimedInstance{}, "ReclaimedGroup": ReclaimedGroup{}, "UnknownProcess": UnknownProcess{},
	}
	for name, schema := range document.Components.Schemas {
		if schema.Value.Type.Is("string") {
			continue
		}
		value, ok := types[name]
		if !ok {
			t.Errorf("the schema %s is of no type", name)
			continue
		}
		delete(types, name)
		var described []string
		for member := range schema.Value.Properties {
			described = append(described, member)
		}
		slices.Sort(described)
		required := slices.Sorted(slices.Values(schema.Value.Required))
		all, always := members(reflect.TypeOf(value))
		if !slices.Equal(described, all) || !slices.Equal(required, always) {
			t.Errorf("%s is described as %q with %q always there, and is %q with %q", name, described, required, all, always)
		}
	}
	for name := range types {
		t.Errorf("there is no schema %s", name)
	}
	states := document.Components.Schemas["State"].Value.Enum
	for _, state := range []supervise.State{
		supervise.Waiting, supervise.Starting, supervise.Ready, supervise.Unhealthy, supervise.Stopping,
		supervise.Backoff, supervise.Stopped, supervise.Failed, supervise.Removed,
	} {
		if !slices.Contains(states, any(string(state))) {
			t.Errorf("the state %s is not described", state)
		}
	}
}

// describedClient makes requests of a server, and checks that both they and
// their answers are what the description says.
type describedClient struct {
	t        *testing.T
	document *openapi3.T
	http     http.Client
}

func (c *describedClient) do(method, target, body string, wantStatus int) {
	c.t.Helper()
	router, err := gorillamux.NewRouter(c.document)
	if err != nil {
		c.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(c.t.Context(), method, "http://plughost"+target, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	route, parameters, err := router.FindRoute(request)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, target, err)
	}
	input := &openapi3filter.RequestValidationInput{Request: request, PathParams: parameters, Route: route}
	if err := openapi3filter.ValidateRequest(c.t.Context(), input); err != nil && wantStatus != http.StatusBadRequest && wantStatus != http.StatusNotFound {
		c.t.Errorf("%s %s: the description refuses the request: %v", method, target, err)
	}
	request.Body = io.NopCloser(strings.NewReader(body))
	response, err := c.http.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != wantStatus {
		c.t.Errorf("%s %s is answered by %s (%v), want %d: %s", method, target, response.Status, err, wantStatus, content)
	}
	kind := response.Header.Get("Content-Type")
	lines := map[string]string{"text/event-stream": "Event", "application/jsonl": "Entry"}[kind]
	err = openapi3filter.ValidateResponse(c.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: response.StatusCode, Header: response.Header, Body: io.NopCloser(bytes.NewReader(content)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: lines != ""},
	})
	if err != nil {
		c.t.Errorf("%s %s: the answer is not what is described: %v", method, target, err)
	}
	if lines != "" {
		c.checkLines(lines, string(content))
	}
}

// checkLines checks each JSON object of a stream by a schema.
func (c *describedClient) checkLines(schema, content string) {
	c.t.Helper()
	n := 0
	for line := range strings.Lines(content) {
		line = strings.TrimPrefix(line, "data: ")
		if !strings.HasPrefix(line, "{") {
			continue
		}
		n++
		var value any
		if err := json.Unmarshal([]byte(line), &value); err != nil {
			c.t.Errorf("%v in %s", err, line)
		}
		if err := c.document.Components.Schemas[schema].Value.VisitJSON(value, openapi3.EnableJSONSchema2020()); err != nil {
			c.t.Errorf("an %s is not what is described: %v: %s", schema, err, line)
		}
	}
	if n == 0 {
		c.t.Errorf("there is no %s in the stream %q", schema, content)
	}
}

func TestAnswersAreAsDescribed(t *testing.T) {
	at := time.Unix(1e9, 0).UTC()
	hub := events.NewHub(at, 8)
	hub.Publish(events.Event{
		Type: events.ServiceChanged, Service: "mcp.clock", Instance: "i", PID: 1, Port: 2, From: supervise.Ready, To: supervise.Backoff,
		Cause: "c", Restarts: 3, NextTry: at, Error: "e", Proof: "marker", Count: 4,
	})
	hub.Publish(events.Event{Type: events.HostReady, Cause: "c"})
	entries := &fakeLogs{entries: []logs.Entry{
		{Time: at, Service: "mcp.clock", Instance: "i", Stream: "stdout", Level: "info", Message: "m", Fields: map[string]any{"a": 1}},
		{Time: at, Service: "mcp.clock", Stream: "host", Message: "m"},
	}}
	identity := marker.Identity{Kind: marker.KindMCP, Service: "clock", Installation: "id", Instance: "i"}
	record := registry.Record{
		Identity: identity, Path: "/p", Binary: "b", Cgroup: "/c", Port: 1, Digest: "d", Network: "unix", Address: "a", Intended: at, PID: 2,
		Birth: probes.Birth{BootID: "b", PID: 2, Start: 3, PidfdInode: 4},
	}
	known := &processes{
		records: []registry.Record{record, {Identity: identity}},
		report: reclaim.Report{
			Stopped:  []reclaim.Stopped{{Identity: identity, PID: 3}},
			Unknown:  []reclaim.Unknown{{Record: record, Reason: "r"}},
			Failures: []error{errors.New("f")},
		},
	}
	conf := &configuration{plan: Plan{
		Services: []supervise.Step{
			{Service: clock, Action: supervise.Replace, Because: []string{"a"}, Forces: []string{"a"}, State: supervise.Ready, PID: 1, Error: "e"},
			{Service: assistant, Action: supervise.Keep},
		},
		HostUpdates: []string{"log_level"}, HostRestart: []string{"listen"}, Diagnostics: "w",
	}}
	steered := &services{}
	path, _ := serve(t, steered, func(s *Server) {
		s.Version = "1.2.3"
		withAll(s, known, conf, hub, entries)
	})
	c := &describedClient{t: t, document: loadDescription(t), http: http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) },
	}}}

	c.do("GET", "/v1/status", "", 200)
	c.do("GET", "/v1/status?usage=true", "", 200)
	c.do("GET", "/v1/status?usage=maybe", "", 400)
	c.do("GET", "/v1/status?unheard=of", "", 400)
	c.do("POST", "/v1/services/mcp/clock/restart", "", 204)
	c.do("POST", "/v1/services/mcp/clock/stop?wait=false", "", 202)
	c.do("POST", "/v1/services/mcp/clock/dance", "", 404)
	c.do("POST", "/v1/services/mcp/nobody/stop?wait=false", "", 404)
	c.do("GET", "/v1/events?follow=false&service=mcp.clock&service=agent.assistant", "", 200)
	c.do("GET", "/v1/events?follow=perhaps", "", 400)
	c.do("GET", "/v1/logs?service=mcp.clock&tail=2&since=2026-01-02T15:04:05Z&follow=false", "", 200)
	c.do("GET", "/v1/logs?tail=-1", "", 400)
	c.do("POST", "/v1/reload?color=true&width=80", "", 200)
	c.do("POST", "/v1/plan", "", 200)
	c.do("POST", "/v1/plan?width=0", `{"paths":["/a"],"vars":["a=b"],"varFiles":["/v"]}`, 200)
	c.do("POST", "/v1/plan", `{"paths":1}`, 400)
	c.do("GET", "/v1/instances", "", 200)
	c.do("POST", "/v1/reclaim", "", 200)
	records, plan := known.records, conf.plan
	known.records, conf.plan = nil, Plan{} // of a host without services
	c.do("GET", "/v1/instances", "", 200)
	c.do("POST", "/v1/plan", "", 200)
	known.records, conf.plan = records, plan

	for status, err := range map[int]error{404: &supervise.UnknownServiceError{Ref: clock}, 409: errors.New("no"), 503: supervise.ErrShuttingDown} {
		steered.mu.Lock()
		steered.answer = func(context.Context) error { return err }
		steered.mu.Unlock()
		c.do("POST", "/v1/services/mcp/clock/start", "", status)
	}
	for status, err := range map[int]error{409: errors.New("no"), 422: &RefusedError{Message: "m", Diagnostics: "d"}, 503: supervise.ErrShuttingDown} {
		conf.err = err
		c.do("POST", "/v1/reload", "", status)
		c.do("POST", "/v1/plan", "", status)
	}
	entries.entries, entries.err = nil, &supervise.UnknownServiceError{Ref: clock}
	c.do("GET", "/v1/logs", "", 404)
	known.err = errors.New("no")
	c.do("GET", "/v1/instances", "", 500)
	c.do("POST", "/v1/reclaim", "", 500)
}

func TestClientIsToldOnceOfAHostOfAnotherVersion(t *testing.T) {
	for version, want := range map[string][]string{"1.2.3": nil, "1.2.4": {"1.2.3"}} {
		path, _ := serve(t, &services{}, func(s *Server) { s.Version = "1.2.3" })
		client := NewClient(path)
		var told []string
		client.Version, client.OtherVersion = version, func(host string) { told = append(told, host) }
		for range 2 {
			if _, err := client.Status(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(told, want) {
			t.Errorf("a client of version %s is told %q, want %q", version, told, want)
		}
	}
}
