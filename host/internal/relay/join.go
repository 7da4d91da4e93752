package relay

import (
	"context"
	"slices"
	"sync"

	"github.com/plughost/plughost/shared/mcphttp"
	"github.com/plughost/plughost/shared/wire"
)

// Join is the endpoint that joins several services. It answers what is about all
// of them itself, from what they list, and passes the rest on to the one service
// that it is about.
type Join struct {
	*Relay
	name, version string // as which clients know it

	mu       sync.Mutex
	services []*Service // in the order of the configuration
	has      map[*Service]features
	table    *table // nil until it is needed
}

// NewJoin makes an endpoint of no service yet, which has a name and a version.
func NewJoin(name, version string, options Options) *Join {
	j := &Join{Relay: newRelay(options), name: name, version: version, has: make(map[*Service]features)}
	j.router = j
	return j
}

// Arrange has the endpoint join these services, in this order.
func (j *Join) Arrange(services []*Service) {
	j.mu.Lock()
	before := j.services
	j.mu.Unlock()
	gone := slices.DeleteFunc(slices.Clone(before), func(s *Service) bool { return slices.Contains(services, s) })
	if !slices.Equal(before, services) {
		j.change(func() {
			j.services = slices.Clone(services)
			for _, s := range gone {
				delete(j.has, s)
			}
		})
	}
	for _, s := range gone {
		s.unwatch(j)
		j.forget(s)
	}
	for _, s := range services {
		if !slices.Contains(before, s) {
			s.watch(j)
		}
	}
}

// forget ends what clients have of a service that is gone.
func (j *Join) forget(service *Service) {
	for _, s := range j.all() {
		s.detach()
	}
	for _, g := range j.listeningNow() {
		if slices.ContainsFunc(g.parts, func(p *part) bool { return p.service == service }) {
			g.client.fail(service.errLost())
		}
	}
}

func (j *Join) offered(s *Service, f features) { j.listed(s, f) }

// listed takes what a service has.
func (j *Join) listed(s *Service, f features) {
	j.change(func() {
		if slices.Contains(j.services, s) { // else it was removed
			j.has[s] = f
		}
	})
}

// change changes what is joined, and tells the clients that see a difference. What
// they are told of they find when they look.
func (j *Join) change(change func()) {
	j.mu.Lock()
	audience := j.audience()
	var before, after *table
	if len(audience) > 0 {
		before = j.joined()
	}
	change()
	j.table = nil
	if len(audience) > 0 {
		after = j.joined()
	}
	j.mu.Unlock()
	changed := make(map[Grants][]string) // many see the same
	for _, a := range audience {
		g := a.granted()
		lists, known := changed[g]
		if !known {
			lists = differing(before, g, after, g)
			changed[g] = lists
		}
		a.changed(lists...)
	}
}

// know waits until it is known what all services have, unless the request is for
// a tool or a prompt that is seen: nobody else's has its name.
func (j *Join) know(ctx context.Context, g Grants, m *wire.Message) {
	switch string(m.Method) {
	case "ping":
		return
	case "tools/call":
		if j.knows(g, kindTools, m) {
			return
		}
	case "prompts/get":
		if j.knows(g, kindPrompts, m) {
			return
		}
	}
	j.mu.Lock()
	services := j.services
	j.mu.Unlock()
	await(ctx, services...)
}

// knows reports whether one who has some grants sees what a request names.
func (j *Join) knows(g Grants, k kind, m *wire.Message) bool {
	at, err := m.Param("name")
	if err != nil {
		return false
	}
	name, _ := wire.Text(m.Bytes(at))
	return j.current().named(g, k, string(name)) != nil
}

// joined is the table of what is joined. The lock is held.
func (j *Join) joined() *table {
	if j.table == nil {
		j.table = newTable(j.services, j.has)
	}
	return j.table
}

func (j *Join) current() *table {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.joined()
}

// differing returns the lists that are different with other grants.
func (j *Join) differing(before, now Grants) []string {
	t := j.current()
	return differing(t, before, t, now)
}

// Shows reports whether there is a tool that one who has some grants sees.
func (j *Join) Shows(g Grants, tool string) bool { return j.current().named(g, kindTools, tool) != nil }

// params are the headers that repeat arguments of a tool, if it is seen.
func (j *Join) params(g Grants, tool string) []mcphttp.ParamHeader {
	if e := j.current().named(g, kindTools, tool); e != nil {
		return e.params
	}
	return nil
}

// reaches reports whether anything of a service may be reached here: others were
// removed.
func (j *Join) reaches(g Grants, service *Service) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Contains(j.services, service) && g.Reaches(service.name)
}

// passes reports whether clients get a notification of a plugin: of changed lists
// they are told here, once.
func (j *Join) passes(method string) bool {
	return changedList(method) == ""
}
