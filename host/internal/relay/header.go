package relay

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/mcphttp"
	"github.com/plughost/plughost/shared/wire"
)

// From 2026-07-28 on the headers of a request say what is in it, for whoever
// looks at headers only. So they must be true.

// metaVersion names the revision in a request's _meta.
const metaVersion = mcp.MetaKeyProtocolVersion

// codeHeaderMismatch is of headers that do not say what the message does.
const codeHeaderMismatch = mcp.CodeHeaderMismatch

// mismatchf says what a message and its headers contradict each other in.
func mismatchf(format string, args ...any) error {
	return refusef(codeHeaderMismatch, format, args...)
}

// checkHeaders compares a message with the headers of its request, as far as who
// sent it sees what it is about.
func (r *Relay) checkHeaders(g Grants, header http.Header, m *wire.Message) error {
	version := header.Get(headerVersion)
	if m.Kind == wire.Request {
		if err := checkVersion(version, m); err != nil {
			return err
		}
	}
	if version != firstStateless {
		return &refusal{
			code:   mcp.CodeUnsupportedProtocolVersion,
			reason: fmt.Sprintf("revision %q is not spoken here", version),
			data:   mcp.UnsupportedProtocolVersionData{Supported: spoken(), Requested: version},
		}
	}
	switch got := header.Get(headerMethod); {
	case got == "":
		return mismatchf("%s is missing", headerMethod)
	case got != string(m.Method):
		return mismatchf("%s is %q, and the message's method is %q", headerMethod, got, m.Method)
	}
	name, err := checkName(header, m)
	if err != nil || string(m.Method) != "tools/call" {
		return err
	}
	for _, param := range r.router.params(g, name) {
		if err := checkParam(param, header, m); err != nil {
			return err
		}
	}
	return nil
}

// spoken are the revisions that are spoken, the latest first.
func spoken() []string {
	all := append(slices.Clone(revisions[:]), firstStateless)
	slices.Reverse(all)
	return all
}

func checkVersion(version string, m *wire.Message) error {
	at, err := m.Param("_meta", metaVersion)
	if err != nil {
		return err
	}
	got, ok := wire.Text(m.Bytes(at))
	switch {
	case !ok:
		return refusef(wire.CodeInvalidParams, "_meta has no %q", metaVersion)
	case string(got) != version:
		return mismatchf("%s is %q, and %q in _meta is %q", headerVersion, version, metaVersion, got)
	}
	return nil
}

// checkName compares the name of what a message is about, and returns it.
func checkName(header http.Header, m *wire.Message) (string, error) {
	var member string
	switch string(m.Method) {
	case "tools/call", "prompts/get":
		member = "name"
	case "resources/read":
		member = "uri"
	default:
		return "", nil
	}
	at, err := m.Param(member)
	if err != nil {
		return "", err
	}
	name, ok := wire.Text(m.Bytes(at))
	got, decodable := mcphttp.DecodeHeader(header.Get(headerName))
	switch {
	case header.Get(headerName) == "":
		return "", mismatchf("%s is missing", headerName)
	case !ok || !decodable || got != string(name):
		return "", mismatchf("%s is %q, and the message's %s is %q", headerName, header.Get(headerName), member, name)
	}
	return got, nil
}

func checkParam(p mcphttp.ParamHeader, header http.Header, m *wire.Message) error {
	at, err := m.Param(append([]string{"arguments"}, p.Path...)...)
	if err != nil {
		return err
	}
	value, got := m.Bytes(at), header.Get(p.Name)
	argument := strings.Join(p.Path, ".")
	if !at.Found() || string(value) == "null" {
		if got != "" {
			return mismatchf("%s is there, and the argument %s is not", p.Name, argument)
		}
		return nil
	}
	text, ok := mcphttp.DecodeHeader(got)
	switch {
	case got == "":
		return mismatchf("%s is missing, and the argument %s is there", p.Name, argument)
	case !ok:
		return mismatchf("%s is not well encoded", p.Name)
	case !says(text, value):
		return mismatchf("%s is %q, and not the argument %s", p.Name, got, argument)
	}
	return nil
}

// says reports whether a header has the value of a string, a boolean or an
// integer.
func says(header string, value []byte) bool {
	switch value[0] {
	case '"':
		text, ok := wire.Text(value)
		return ok && string(text) == header
	case 't', 'f':
		return string(value) == header
	default:
		a, errA := strconv.ParseFloat(header, 64)
		b, errB := strconv.ParseFloat(string(value), 64)
		return errA == nil && errB == nil && a == b && a == math.Trunc(a) && math.Abs(a) < 1<<53
	}
}
