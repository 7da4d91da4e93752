package config

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/net/http/httpguts"
)

// Whom an MCP server that is no plugin serves.
const (
	// SessionsShared has one process serve all sessions.
	SessionsShared = "shared"
	// SessionsIsolated gives each session a process of its own.
	SessionsIsolated = "isolated"
	// SessionsNone has one process serve all, to which each request stands alone.
	SessionsNone = "none"
)

// programs are the attributes of which a service has one.
var programs = []string{"command", "exec", "url"}

// program reads what the service is: a plugin, or an MCP server that is none.
func (d *decoder) program(s *serviceDecl, block *hcl.Block, content *hcl.BodyContent) {
	attrs := content.Attributes
	command, exec := d.arguments(attrs, "command"), d.arguments(attrs, "exec")
	address, noAddress := d.address(attrs)
	absent := map[string]bool{"command": command.absent, "exec": exec.absent, "url": noAddress}
	given := slices.DeleteFunc(slices.Clone(programs), func(name string) bool { return absent[name] })
	if len(given) == 0 {
		d.noProgram(s, block, content)
		return
	}
	for _, name := range given[1:] {
		d.diags.errorf(attrs[name].NameRange, "More than one program",
			"A service has one of %s, and %s is here already, at %s.", listed(programs, "and"), given[0], attrs[given[0]].NameRange)
	}
	name := given[0]
	if name == "exec" && s.kindKnown && s.Kind != KindMCP {
		d.diags.errorf(attrs[name].NameRange, "Not for an agent", `exec: only a service of kind "mcp" can be a server that is no plugin. An agent needs "command", or "url" if it is a remote one.`)
	}
	sessions := d.oneOf(attrs, "sessions", SessionsShared, SessionsShared, SessionsIsolated, SessionsNone)
	switch name {
	case "command":
		s.Command, s.Path = d.command(command)
	case "exec":
		s.Exec, s.Path = d.command(exec)
		s.Sessions = sessions.V
	case "url":
		d.remote(s, address, attrs)
	}
	d.without(attrs, name, sessions.Set)
}

// noProgram reports that nothing says what the service is.
func (d *decoder) noProgram(s *serviceDecl, block *hcl.Block, content *hcl.BodyContent) {
	for _, name := range []string{"command", "exec"} {
		if attr := content.Attributes[name]; attr != nil {
			d.diags.errorf(attr.Expr.Range(), "A list is wanted", "%s: it is null; a list is wanted, %s.", name, argumentsWanted)
			return
		}
	}
	misspelt := func(name string) bool { return d.misspelt(block.Body, serviceSchema, name) }
	if !slices.ContainsFunc(programs, misspelt) {
		d.diags.errorf(content.MissingItemRange, "Missing command",
			`A service needs the argument "command": a list of strings, %s.%s`, argumentsWanted, d.insteadOfCommand(s))
	}
}

func (d *decoder) insteadOfCommand(s *serviceDecl) string {
	if s.Kind != KindMCP {
		return ` A remote agent has "url" in its place.`
	}
	return ` An MCP server that is no plugin has "exec" or "url" in its place.`
}

// notWith are the attributes that mean nothing beside one of programs, and why.
var notWith = map[string][]struct{ attr, why string }{
	"command": {
		{"sessions", "a plugin serves its sessions as it likes"},
		{"headers", `they are sent to a remote server, which has "url"`},
	},
	"exec": {
		{"headers", `they are sent to a remote server, which has "url"`},
		{"checksum", `it is for the executable of "command"`},
	},
	"url": {
		{"sessions", "with a remote server every session is one of its own"},
		{"checksum", "nothing of a remote server is executed here"},
		{"port", "a remote server listens elsewhere"},
	},
}

// without reports the attributes that have no effect beside one of programs.
func (d *decoder) without(attrs hcl.Attributes, program string, sessions bool) {
	for _, not := range notWith[program] {
		if attr := attrs[not.attr]; attr != nil && (not.attr != "sessions" || sessions) {
			d.diags.errorf(attr.NameRange, "Attribute without effect", "%s: it cannot be beside %q: %s.", not.attr, program, not.why)
		}
	}
}

// interpreter warns of a program that will not find its interpreter, as npx and
// uvx will not without the host's PATH.
func (d *decoder) interpreter(s *serviceDecl, attrs hcl.Attributes) {
	isPATH := func(name string) bool { return variableID(name) == "PATH" }
	if s.Exec == nil || s.Path == "" || slices.ContainsFunc(s.Inherit, isPATH) ||
		slices.ContainsFunc(slices.Collect(maps.Keys(s.Env)), isPATH) || !looksOnPath(s.Path) {
		return
	}
	d.diags.warnf(attrs["exec"].Expr.Range(), "Program needs PATH",
		`exec: the interpreter of %s is looked for on PATH, and a service has only the variables that it lists. Add inherit = ["PATH", "HOME"].`, quote(s.Path))
}

// looksOnPath reports whether a file is a script that has env find its
// interpreter.
func looksOnPath(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	line := make([]byte, 128)
	n, _ := io.ReadFull(file, line)
	line, _, _ = bytes.Cut(line[:n], []byte("\n"))
	return bytes.HasPrefix(line, []byte("#!")) && bytes.Contains(line, []byte("/env "))
}

// address reads the URL, which may be absent, or null.
func (d *decoder) address(attrs hcl.Attributes) (address val[string], absent bool) {
	attr := attrs["url"]
	if attr == nil {
		return val[string]{}, true
	}
	v, ok := d.evaluate(attr.Expr)
	if !ok || v.IsNull() {
		return val[string]{}, ok
	}
	address.Range = attr.Expr.Range()
	address.V, address.Set = d.text(v, address.Range, "url")
	return address, false
}

// remote reads a server that is reached over HTTP.
func (d *decoder) remote(s *serviceDecl, given val[string], attrs hcl.Attributes) {
	if !given.Set {
		return
	}
	s.URL = given.V
	s.Headers = d.headers(attrs)
	u, err := url.Parse(given.V)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		d.diags.errorf(given.Range, "Not a URL", `url: the address of a server is wanted, such as "https://example.com/mcp".`)
	case u.User != nil:
		d.diags.errorf(given.Range, "Secret in a URL", "url: a user or password in it would be shown to everybody. Write it as a header, in headers.")
	case u.Fragment != "":
		d.diags.errorf(given.Range, "Not a URL", "url: what follows # is never sent. Remove it.")
	case u.Scheme == "http" && len(s.Headers) > 0 && !isLoopback(u.Hostname()):
		d.diags.warnf(given.Range, "Headers can be read", "url: over http everybody on the way can read the headers. Use https.")
	}
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// transportHeaders are those that the transport sets itself.
var transportHeaders = []string{
	"Accept", "Connection", "Content-Length", "Content-Type", "Host", "Last-Event-Id", "Mcp-Method", "Mcp-Name",
	"Mcp-Protocol-Version", "Mcp-Session-Id", "Transfer-Encoding",
}

// headers reads the headers for a remote server. Their values are in no message.
func (d *decoder) headers(attrs hcl.Attributes) map[string]string {
	headers := make(map[string]string)
	first := make(map[string]val[string])
	for _, e := range d.entries(attrs, "headers") {
		name := http.CanonicalHeaderKey(e.key.V)
		before, dup := first[name]
		switch {
		case !httpguts.ValidHeaderFieldName(e.key.V):
			d.diags.errorf(e.key.Range, "Not a header", "headers: %s cannot be the name of a header.", quote(e.key.V))
		case slices.Contains(transportHeaders, name):
			d.diags.errorf(e.key.Range, "Not a header", "headers: %s is set by the host itself.", name)
		case dup:
			d.diags.errorf(e.key.Range, "Duplicate name", "headers.%s is the same header as %s at %s.", e.key.V, before.V, before.Range)
		case !httpguts.ValidHeaderFieldValue(e.value.V):
			d.diags.errorf(e.value.Range, "Not a header", "headers.%s: the value has a character that cannot be in one, such as a line break.", e.key.V)
		default:
			first[name] = e.key
			headers[name] = strings.TrimSpace(e.value.V)
		}
	}
	return headers
}

// bridgeText returns what is served in place of a plugin, for the service's
// hash: nothing if it is a plugin.
func (s Service) bridgeText() []string {
	var words []string
	if s.Exec != nil || s.Sessions != "" {
		words = append(words, "exec", s.Sessions)
		words = append(words, s.Exec...)
	}
	if s.URL != "" {
		words = append(words, "url", s.URL)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		words = append(words, "header", name, s.Headers[name])
	}
	return words
}
