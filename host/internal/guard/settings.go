package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/shared/loopback"
)

// settings are what a configuration says, to be looked up.
type settings struct {
	hosts, origins map[string]bool
	tokens         []token
	limits         config.GatewayLimits
	services       map[config.Ref]bool
}

type token struct {
	config.Token
	caller caller.Caller
}

func newSettings(conf *config.Config) *settings {
	gateway := conf.Host.Gateway
	s := &settings{
		hosts:    setOf(gateway.Hosts),
		origins:  setOf(gateway.Origins),
		limits:   gateway.Limits,
		services: make(map[config.Ref]bool),
	}
	for _, t := range gateway.Tokens {
		s.tokens = append(s.tokens, token{Token: t, caller: caller.New(t.Name, t.Access)})
	}
	for _, service := range conf.Services {
		s.services[service.Ref()] = true
	}
	return s
}

// changed are the names of the tokens that are not what they were; without any
// everybody had the empty one.
func (s *settings) changed(after *settings) (names []string) {
	if len(s.tokens) == 0 && len(after.tokens) > 0 {
		names = append(names, "")
	}
	for _, t := range s.tokens {
		same := func(other token) bool { return reflect.DeepEqual(t.Token, other.Token) }
		if !slices.ContainsFunc(after.tokens, same) {
			names = append(names, t.Name)
		}
	}
	return names
}

// caller is the one of a token.
func (s *settings) caller(name string) caller.Caller {
	for _, t := range s.tokens {
		if t.Name == name {
			return t.caller
		}
	}
	return caller.New(name, config.Access{})
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool)
	for _, element := range list {
		set[element] = true
	}
	return set
}

// knowsHost reports whether a Host header is none that a foreign web page can
// have brought about by letting its own name point here: it is a loopback name,
// off the loopback interface an address, or a name that is configured.
func (s *settings) knowsHost(hostport string, exposed bool) bool {
	if loopback.IsLocalHost(hostport) {
		return true
	}
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	if _, err := netip.ParseAddr(host); err == nil && exposed {
		return true
	}
	return s.hosts[host]
}

// allowsOrigin accepts no Origin at all, as programs send, or exactly one: of a
// configured page or, on the loopback interface, of one of this machine.
func (s *settings) allowsOrigin(origins []string, exposed bool) bool {
	switch {
	case len(origins) == 0:
		return true
	case len(origins) > 1:
		return false
	default:
		return s.allowed(origins[0]) || !exposed && loopback.IsLocalOrigin(origins[0])
	}
}

// allowed reports whether an origin is configured.
func (s *settings) allowed(origin string) bool { return s.origins[strings.ToLower(origin)] }

// authenticate finds out who calls. Without tokens it is somebody of this
// machine; whoever comes from elsewhere needs one in any case, also if a reload
// took the last one away.
func (s *settings) authenticate(authorization []string, exposed bool) (caller.Caller, Reason) {
	if len(s.tokens) == 0 && !exposed {
		return caller.Caller{}, ""
	}
	if len(authorization) == 0 {
		return caller.Caller{}, ReasonNoToken
	}
	scheme, shown, _ := strings.Cut(authorization[0], " ")
	if len(authorization) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return caller.Caller{}, ReasonBadToken
	}
	digest := sha256.Sum256([]byte(strings.TrimSpace(shown)))
	found := -1
	for i, t := range s.tokens { // all of them, so that the time taken says nothing
		if subtle.ConstantTimeCompare(t.Digest[:], digest[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return caller.Caller{}, ReasonBadToken
	}
	return s.tokens[found].caller, ""
}

// service is the one that a path belongs to. What is not configured is not told
// apart, so that callers cannot make up names that are counted.
func (s *settings) service(path string) config.Ref {
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	name, _, _ := strings.Cut(rest, "/")
	var ref config.Ref
	switch first {
	case "mcp":
		ref = config.Ref{Kind: config.KindMCP, Name: name}
	case "a2a":
		ref = config.Ref{Kind: config.KindAgent, Name: name}
	}
	if !s.services[ref] {
		ref.Name = ""
	}
	return ref
}
