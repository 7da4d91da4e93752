package relay

import (
	"context"

	"github.com/plughost/plughost/shared/mcphttp"
	"github.com/plughost/plughost/shared/wire"
)

// router knows what the requests of an endpoint's clients are about. What it
// refuses them is a *refusal or a *wire.Error.
type router interface {
	// know waits until all is known that the router needs for a request, if it
	// can be.
	know(ctx context.Context, g Grants, m *wire.Message)
	// open answers the initialize of a session, whose call is claimed, or has it
	// answered.
	open(ctx context.Context, s *session, c *call, m *wire.Message, header map[string]string) error
	// route says what becomes of a request. s is nil if it has no session.
	route(s *session, g Grants, m *wire.Message) (route, error)
	// listen says who takes a request to listen: it sets the parts of it.
	listen(ctx context.Context, g *listening, m *wire.Message) error
	// reaches reports whether anything of a service may be reached here.
	reaches(g Grants, service *Service) bool
	// params are the headers that repeat arguments of a tool, if it is seen.
	params(g Grants, tool string) []mcphttp.ParamHeader
	// passes reports whether clients get a notification of a plugin.
	passes(method string) bool
	// differing returns the lists that are different with other grants, and of
	// which a client is to be told.
	differing(before, now Grants) []string
}

// Grants say what of the services may be reached. They can be compared.
type Grants interface {
	// Restricted reports whether there is anything that may not be.
	Restricted() bool
	// Reaches reports whether anything of a service may be.
	Reaches(service string) bool
	// Service reports whether a service's prompts and resources may be.
	Service(service string) bool
	// Tool reports whether a tool of a service may be.
	Tool(service, tool string) bool
}

// route is what becomes of a request: a service takes it, or it was answered
// here.
type route struct {
	to *Service
	// message is the request as the service is to get it.
	message *wire.Message
	// tool is the service's own name of the one that is called, if one is.
	tool string
	// edit, if there is one, makes the answer what the client may see.
	edit func(answer *wire.Message) *wire.Message
	// result is the answer, if no service takes the request.
	result []byte
	// every says that all services of the session get the request first.
	every bool
}

// single is the router of the endpoint of one service, under its own names.
type single struct{ service *Service }

// know waits for what calls of tools are held against. All else is the plugin's.
func (o single) know(ctx context.Context, _ Grants, m *wire.Message) {
	if string(m.Method) == "tools/call" {
		await(ctx, o.service)
	}
}

func (o single) open(ctx context.Context, s *session, c *call, m *wire.Message, header map[string]string) error {
	b, err := o.service.current()
	if err != nil {
		return err
	}
	a, err := s.attachmentTo(o.service)
	if err != nil {
		return err
	}
	l, err := b.open(ctx, s)
	if err != nil {
		return err
	}
	if err := a.adopt(s, l); err != nil {
		return err
	}
	if err := s.begin(l, c, m); err != nil {
		return err
	}
	l.sendCall(ctx, c, m, header)
	return nil
}

func (o single) route(_ *session, g Grants, m *wire.Message) (route, error) {
	tools := o.service.visible(g)
	tool, err := allowed(tools, m)
	if err != nil {
		return route{}, err
	}
	return route{to: o.service, message: m, tool: tool, edit: editor(tools, m)}, nil
}

func (o single) listen(_ context.Context, g *listening, m *wire.Message) error {
	g.parts = []*part{{listening: g, service: o.service, request: m, whole: true}}
	return nil
}

func (o single) params(g Grants, tool string) []mcphttp.ParamHeader {
	e := o.service.tool(tool)
	if visible := o.service.visible(g); e == nil || visible != nil && !visible(tool) {
		return nil
	}
	return e.params
}

func (single) reaches(g Grants, service *Service) bool { return g.Reaches(service.name) }

func (single) passes(string) bool { return true }

func (single) differing(_, _ Grants) []string { return nil }
