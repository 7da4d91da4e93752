package config

import (
	"net/url"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Push says where the push notifications of an agent's tasks may be sent.
type Push struct {
	// Allow are origins in small letters, such as "https://hooks.example.org".
	// In the place of the host there may be "*", for any, and "*." before a
	// domain, for any below it. None by default: then there are no push
	// notifications.
	Allow []string
}

// Allows reports whether a notification may be sent to u, and whether the
// configuration names its host, and not only a pattern that it matches.
func (p Push) Allows(u *url.URL) (allowed, named bool) {
	origin := strings.ToLower(u.Scheme + "://" + u.Host)
	for _, allow := range p.Allow {
		if allow == origin {
			return true, true
		}
		allowed = allowed || matchesOrigin(allow, origin)
	}
	return allowed, false
}

// matchesOrigin reports whether a pattern with a wildcard is of an origin.
func matchesOrigin(pattern, origin string) bool {
	scheme, rest, ok := strings.Cut(pattern, "://*")
	host, sameScheme := strings.CutPrefix(origin, scheme+"://")
	if !ok || !sameScheme || host == "" {
		return false
	}
	if rest == "" {
		return true
	}
	below, ok := strings.CutSuffix(host, rest)
	return ok && below != "" && !strings.ContainsAny(below, ":/@")
}

var pushSchema = Block{
	Type: "push",
	Doc:  "For an `agent`: where the push notifications of its tasks may be sent; see [agents.md](agents.md#push-notifications).",
	Attributes: []Attribute{
		{
			Name: "allow", Type: TypeStrings, DefaultDoc: "none", Example: `["https://hooks.example.org"]`,
			Doc: "origins of the URLs that clients may give. `*` in the place of the host is any one with a public address, and `*.` before a domain any such below it",
		},
	},
}

// push reads the push block of a service, which may be absent.
func (d *decoder) push(s *serviceDecl, block *hcl.Block) {
	if block == nil {
		return
	}
	s.Push.Allow = d.checked(d.attrs(block, pushSchema), "allow", "one element per origin", d.pushOrigin)
	if s.kindKnown && s.Kind != KindAgent {
		d.diags.errorf(block.DefRange, "Block without effect", "push: only agents have tasks, of which there are push notifications. Remove the block.")
	}
}

// pushOrigin checks an origin that may have a wildcard in it.
func (d *decoder) pushOrigin(v val[string], name string) (string, bool) {
	origin := strings.ToLower(v.V)
	u, err := url.Parse(strings.Replace(strings.Replace(origin, "://*.", "://", 1), "://*", "://any", 1))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Hostname() == "" || strings.Contains(u.Host, "*") ||
		u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		d.diags.errorf(v.Range, "Not an origin",
			`%s: scheme and host are wanted, with the port if it is not the usual one and nothing after it, for instance "https://hooks.example.org", "https://*.example.org" or "https://*", but not %s.`,
			name, quote(v.V))
		return "", false
	}
	return origin, true
}
