package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/wire"
)

// codeNotFound is of a resource that is not there, in the revisions with
// sessions.
const codeNotFound = -32002

// What clients of a join are told that all of its services can: some of them may
// come later.
var joinCapabilities = json.RawMessage(`{"completions":{},"logging":{},"prompts":{"listChanged":true},` +
	`"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`)

// joinCapabilitiesWithTasks are those in the revision that has tasks.
var joinCapabilitiesWithTasks = append(joinCapabilities[:len(joinCapabilities)-1:len(joinCapabilities)-1],
	`,"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}}`...)

// logLevels are those that a client can set.
var logLevels = [...]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// open answers the initialize of a session. Each service gets it when it is first
// used.
func (j *Join) open(_ context.Context, s *session, c *call, m *wire.Message, _ map[string]string) error {
	version := revisions[len(revisions)-1]
	at, err := m.Param("protocolVersion")
	if err != nil {
		return err
	}
	wanted, ok := wire.Text(m.Bytes(at))
	switch {
	case !ok:
		return refusef(wire.CodeInvalidParams, "the parameters have no protocolVersion")
	case slices.Contains(revisions[:], string(wanted)):
		version = string(wanted)
	default:
		agreed := m.With(at, quoted(version))
		m = &agreed
	}
	capabilities := joinCapabilities
	if version == withTasks {
		capabilities = joinCapabilitiesWithTasks
	}
	result, err := json.Marshal(initializeResult{
		ProtocolVersion: version,
		Capabilities:    capabilities,
		ServerInfo:      j.implementation(),
		Instructions:    j.instructions(s.granted()),
	})
	if err != nil {
		return err
	}
	s.memory.set(func() { s.memory.initialize, s.memory.version = m, version })
	s.release(c)
	c.answer(result)
	return nil
}

type initializeResult struct {
	ProtocolVersion string             `json:"protocolVersion"`
	Capabilities    json.RawMessage    `json:"capabilities"`
	ServerInfo      mcp.Implementation `json:"serverInfo"`
	Instructions    string             `json:"instructions,omitempty"`
}

func (j *Join) implementation() mcp.Implementation {
	return mcp.Implementation{Name: j.name, Version: j.version}
}

// instructions are those of the services of which anything can be reached, each
// under its service's name.
func (j *Join) instructions(g Grants) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []string
	for _, s := range j.services {
		f := j.has[s]
		sees := g.Service(s.name) || slices.ContainsFunc(f.lists[kindTools], func(e *entry) bool { return shows(g, kindTools, e) })
		if f.instructions != "" && sees {
			all = append(all, fmt.Sprintf("%s (its tools and prompts are named %s%s...):\n\n%s", s.name, s.name, separator, f.instructions))
		}
	}
	return strings.Join(all, "\n\n")
}

// route says which service a request is for, or answers it.
func (j *Join) route(s *session, g Grants, m *wire.Message) (route, error) {
	if s == nil {
		if err := checkAlone(m); err != nil {
			return route{}, err
		}
	}
	method := string(m.Method)
	for k, l := range listings {
		if method == l.method {
			return j.list(g, kind(k), m, s == nil)
		}
	}
	switch method {
	case "tools/call":
		return j.toTool(s, g, m)
	case "prompts/get":
		return j.toPrompt(g, m, "name")
	case "resources/read":
		return j.toResource(s, g, m)
	case "completion/complete":
		return j.toCompletion(s, g, m)
	}
	switch {
	case s != nil:
		return j.routeIn(s, g, m)
	case method == "server/discover":
		return j.discover(g)
	}
	return route{}, noSuchMethod(method)
}

// routeIn routes what there is in sessions only.
func (j *Join) routeIn(s *session, g Grants, m *wire.Message) (route, error) {
	switch method := string(m.Method); method {
	case "ping":
		return route{result: []byte(`{}`)}, nil
	case "resources/subscribe":
		return j.toResource(s, g, m)
	case "resources/unsubscribe":
		if service := s.memory.subscribedAt(m); service != nil {
			return route{to: service, message: m}, nil
		}
		return j.toResource(s, g, m)
	case "tasks/get", "tasks/result", "tasks/cancel":
		return j.toTask(s, g, m)
	case "tasks/list":
		return j.toTasks(s, g, m)
	case "logging/setLevel":
		return setLevel(m)
	case "initialize":
		return route{}, refusef(wire.CodeInvalidRequest, "the session was initialized before")
	default:
		return route{}, noSuchMethod(method)
	}
}

func noSuchMethod(method string) error {
	return refusef(wire.CodeMethodNotFound, "method %q is not one of several services joined", method)
}

// checkAlone checks what a request without a session says of its client.
func checkAlone(m *wire.Message) error {
	at, err := m.Param("_meta", mcp.MetaKeyClientCapabilities)
	if err != nil {
		return err
	}
	if can := m.Bytes(at); len(can) == 0 || can[0] != '{' {
		return refusef(wire.CodeInvalidParams, "_meta has no object %q", mcp.MetaKeyClientCapabilities)
	}
	return nil
}

// alone is what a result has in the revisions without sessions.
type alone struct {
	ResultType string                        `json:"resultType"`
	TTL        int                           `json:"ttlMs"`
	CacheScope string                        `json:"cacheScope"` // what is seen depends on who asks
	Meta       map[string]mcp.Implementation `json:"_meta"`
}

func (j *Join) alone() alone {
	return alone{"complete", 0, "private", map[string]mcp.Implementation{mcp.MetaKeyServerInfo: j.implementation()}}
}

func (j *Join) discover(g Grants) (route, error) {
	result, err := json.Marshal(struct {
		alone
		SupportedVersions []string        `json:"supportedVersions"`
		Capabilities      json.RawMessage `json:"capabilities"`
		Instructions      string          `json:"instructions,omitempty"`
	}{j.alone(), spoken(), joinCapabilities, j.instructions(g)})
	return route{result: result}, err
}

// list answers with a page of a list, whose objects are as their services wrote
// them but for their names.
func (j *Join) list(g Grants, k kind, m *wire.Message, standsAlone bool) (route, error) {
	at, err := m.Param("cursor")
	if err != nil {
		return route{}, err
	}
	cursor, _ := wire.Text(m.Bytes(at))
	shown, next, err := j.current().page(g, k, string(cursor))
	if err != nil {
		return route{}, err
	}
	var result bytes.Buffer
	fmt.Fprintf(&result, `{"%s":[`, listings[k].member)
	for i, e := range shown {
		if i > 0 {
			result.WriteByte(',')
		}
		result.Write(e.object)
	}
	result.WriteByte(']')
	if next != "" {
		fmt.Fprintf(&result, `,"nextCursor":%q`, next)
	}
	if standsAlone {
		members, err := json.Marshal(j.alone())
		if err != nil {
			return route{}, err
		}
		result.WriteByte(',')
		result.Write(members[1 : len(members)-1])
	}
	result.WriteByte('}')
	return route{result: result.Bytes()}, nil
}

// toTool has a service call its tool.
func (j *Join) toTool(s *session, g Grants, m *wire.Message) (route, error) {
	rt, e, err := j.toNamed(g, kindTools, m, "name")
	if err != nil {
		return route{}, err
	}
	rt.tool = e.own
	if s == nil {
		return rt, nil
	}
	return s.begins(rt, m)
}

// toPrompt has a service take a request about its prompt.
func (j *Join) toPrompt(g Grants, m *wire.Message, path ...string) (route, error) {
	rt, _, err := j.toNamed(g, kindPrompts, m, path...)
	return rt, err
}

// toNamed has the service of what a request names take it, under its own name.
func (j *Join) toNamed(g Grants, k kind, m *wire.Message, path ...string) (route, *entry, error) {
	at, err := m.Param(path...)
	if err != nil {
		return route{}, nil, err
	}
	name, _ := wire.Text(m.Bytes(at))
	e := j.current().named(g, k, string(name))
	switch {
	case e != nil:
		own := m.With(at, e.raw)
		return route{to: e.service, message: &own}, e, nil
	case k == kindTools:
		return route{}, nil, unknownTool(string(name))
	default:
		return route{}, nil, refusef(wire.CodeInvalidParams, "unknown prompt %q", name)
	}
}

// toResource has the service of a resource take a request about it.
func (j *Join) toResource(s *session, g Grants, m *wire.Message) (route, error) {
	at, err := m.Param("uri")
	if err != nil {
		return route{}, err
	}
	uri, _ := wire.Text(m.Bytes(at))
	e := j.current().resource(g, string(uri))
	if e == nil {
		return route{}, noSuchResource(s, string(uri))
	}
	return route{to: e.service, message: m}, nil
}

func noSuchResource(s *session, uri string) error {
	code := codeNotFound
	if s == nil {
		code = wire.CodeInvalidParams
	}
	return &refusal{code: code, reason: "there is no such resource", data: map[string]string{"uri": uri}}
}

// toCompletion has a service complete an argument of its prompt or of its template
// of URIs.
func (j *Join) toCompletion(s *session, g Grants, m *wire.Message) (route, error) {
	ref, err := m.Param("ref")
	if err != nil {
		return route{}, err
	}
	picked, err := m.Pick(ref, "type", "uri")
	if err != nil {
		return route{}, err
	}
	kind, _ := wire.Text(m.Bytes(picked[0]))
	uri, _ := wire.Text(m.Bytes(picked[1]))
	switch string(kind) {
	case "ref/prompt":
		return j.toPrompt(g, m, "ref", "name")
	case "ref/resource":
		t := j.current()
		e := t.named(g, kindTemplates, string(uri))
		if e == nil {
			e = t.resource(g, string(uri))
		}
		if e == nil {
			return route{}, noSuchResource(s, string(uri))
		}
		return route{to: e.service, message: m}, nil
	default:
		return route{}, refusef(wire.CodeInvalidParams, "%q is neither ref/prompt nor ref/resource", kind)
	}
}

// setLevel has all services of a session log from a level on.
func setLevel(m *wire.Message) (route, error) {
	at, err := m.Param("level")
	if err != nil {
		return route{}, err
	}
	level, _ := wire.Text(m.Bytes(at))
	if !slices.Contains(logLevels[:], string(level)) {
		return route{}, refusef(wire.CodeInvalidParams, "%q is no level: they are %s", level, strings.Join(logLevels[:], ", "))
	}
	return route{result: []byte(`{}`), every: true}, nil
}

// listen has a client hear of changed lists, and the services tell it of their
// resources.
func (j *Join) listen(ctx context.Context, g *listening, m *wire.Message) error {
	if err := checkAlone(m); err != nil {
		return err
	}
	at, err := m.Param("notifications")
	if err != nil {
		return err
	}
	if !at.Found() {
		return refusef(wire.CodeInvalidParams, "the parameters have no notifications")
	}
	var wanted mcp.NotificationSubscriptions
	if err := json.Unmarshal(m.Bytes(at), &wanted); err != nil {
		return refusef(wire.CodeInvalidParams, "notifications: %v", err)
	}
	services, uris := j.publishers(ctx, g.grants, wanted.ResourceSubscriptions)
	wanted.ResourceSubscriptions = nil
	for _, s := range services {
		wanted.ResourceSubscriptions = append(wanted.ResourceSubscriptions, uris[s]...)
		only, err := json.Marshal(mcp.NotificationSubscriptions{ResourceSubscriptions: uris[s]})
		if err != nil {
			return err
		}
		request := m.With(at, only)
		g.parts = append(g.parts, &part{listening: g, service: s, request: &request})
	}
	return g.agree(wanted)
}

// publishers are the services of resources that tell of them, and what they have
// of these.
func (j *Join) publishers(ctx context.Context, g Grants, wanted []string) (services []*Service, uris map[*Service][]string) {
	uris = make(map[*Service][]string)
	t := j.current()
	for _, uri := range wanted {
		e := t.resource(g, uri)
		if e == nil {
			continue
		}
		if uris[e.service] == nil {
			services = append(services, e.service)
		}
		uris[e.service] = append(uris[e.service], uri)
	}
	return slices.DeleteFunc(services, func(s *Service) bool { return !s.publishes(ctx) }), uris
}

// publishes reports whether a service tells those without a session of its
// resources. If its plugin cannot be asked, it is to hear of it when it can.
func (s *Service) publishes(ctx context.Context) bool {
	if !s.latest().subscribes {
		return false
	}
	b, err := s.current()
	if err != nil {
		return true
	}
	alone, err := b.standsAlone(ctx)
	return alone || err != nil
}

// agree tells the client what it hears of. If that is nothing the request ends.
func (g *listening) agree(hears mcp.NotificationSubscriptions) error {
	meta := map[string]json.RawMessage{mcp.MetaKeySubscriptionID: bytes.TrimSpace(g.client.id)}
	params, err := json.Marshal(map[string]any{"notifications": hears, "_meta": meta})
	if err != nil {
		return err
	}
	agreed, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":%s}`, methodAcknowledged, params))
	if err != nil {
		return err
	}
	g.acknowledge(&agreed)
	g.client.out.offer(item{head: agreed.Raw})
	if len(g.changes) > 0 || len(g.parts) > 0 {
		return nil
	}
	result, err := json.Marshal(map[string]any{"resultType": "complete", "_meta": meta})
	if err != nil {
		return err
	}
	g.client.answer(result)
	return nil
}

func quoted(text string) []byte {
	encoded, err := json.Marshal(text)
	if err != nil { // a string can be encoded
		return nil
	}
	return encoded
}
