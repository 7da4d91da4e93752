package config

import (
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// Gateway says who may use the gateway, how, and how much of it.
type Gateway struct {
	// Hosts are the names, in small letters and without a port, that clients
	// may call the gateway by, beside those of the loopback interface and, off
	// it, numeric addresses.
	Hosts []string

	// URL is scheme and host by which clients reach the gateway, such as
	// "https://agents.example.org", or empty for those that each of them uses.
	URL string

	// Origins are the web origins whose pages may use the gateway, such as
	// "https://app.example.org".
	Origins []string

	// PlainHTTP allows to listen off the loopback interface without TLS.
	PlainHTTP bool

	// TLS has the gateway speak HTTPS, unless it is zero.
	TLS TLS

	// Limits bound what clients may cost.
	Limits GatewayLimits

	// Tokens are those that callers may have. If there are none, who reaches
	// the loopback interface may do everything.
	Tokens []Token
}

// TLS names the files of a certificate chain and of its private key, in PEM, by
// absolute paths.
type TLS struct {
	Certificate, Key string
}

// GatewayLimits bound what clients may cost.
type GatewayLimits struct {
	// Body is how many bytes the body of a request may have. Default 4 MiB.
	Body int64

	// Headers is how many bytes the headers of a request may have. Default
	// 64 KiB.
	Headers int64

	// Requests is how many requests of one caller may be answered at once,
	// apart from those that only listen. Default 256.
	Requests int

	// Listeners is how many requests of one caller may only listen at once.
	// Default 2048.
	Listeners int

	// Connections is how many there may be at once. Default 4096.
	Connections int

	// Sessions is how many an endpoint may have at once. Default 10000.
	Sessions int

	// SessionIdle is how long a session lasts without a request. Default 30m.
	SessionIdle time.Duration
}

func defaultGatewayLimits() GatewayLimits {
	return GatewayLimits{Body: 4 << 20, Headers: 64 << 10, Requests: 256, Listeners: 2048, Connections: 4096, Sessions: 10_000, SessionIdle: 30 * time.Minute}
}

var gatewaySchema = Block{
	Type: "gateway",
	Doc:  "Who may use the gateway, how, and how much of it: [gateway.md](gateway.md) explains it.",
	Attributes: []Attribute{
		{
			Name: "hosts", Type: TypeStrings, DefaultDoc: "none", Example: `["mcp.example.org"]`,
			Doc: "names that clients may call the gateway by, without a port, beside those of the loopback interface",
		},
		{
			Name: "url", Type: TypeString, DefaultDoc: "what each client uses", Example: `"https://agents.example.org"`,
			Doc: "scheme and host by which clients reach the gateway, for the cards of agents; needed behind a proxy that ends TLS",
		},
		{
			Name: "origins", Type: TypeStrings, DefaultDoc: "none", Example: `["https://app.example.org"]`,
			Doc: "web origins whose pages may use the gateway",
		},
		{Name: "plain_http", Type: TypeBool, Default: "false", Doc: "allow to listen off the loopback interface without TLS"},
	},
	Blocks: []Block{tlsSchema, gatewayLimitsSchema, tokenSchema},
}

var gatewayLimitsSchema = Block{
	Type: "limits",
	Doc:  "What clients of the gateway may cost.",
	Attributes: []Attribute{
		{Name: "body", Type: TypeSize, Default: `"4MiB"`, Range: "at least `64KiB`", Doc: "how large the body of a request may be"},
		{Name: "headers", Type: TypeSize, Default: `"64KiB"`, Range: "at least `4KiB`", Doc: "how large its headers may be"},
		{Name: "requests", Type: TypeNumber, Default: "256", Unit: "requests", Range: "from 1 on", Doc: "how many requests of one caller are answered at once"},
		{Name: "listeners", Type: TypeNumber, Default: "2048", Unit: "requests", Range: "from 1 on", Doc: "how many requests of one caller may only listen at once"},
		{Name: "connections", Type: TypeNumber, Default: "4096", Unit: "connections", Range: "from 1 on", Doc: "how many connections there may be at once"},
		{Name: "sessions", Type: TypeNumber, Default: "10000", Unit: "sessions", Range: "from 1 on", Doc: "how many sessions an endpoint may have at once"},
		{
			Name: "session_idle", Type: TypeDuration, Default: `"30m"`, Range: "at least `1s`",
			Doc: "how long a session lasts without a request. A client that only listens is idle, too",
		},
	},
}

// gatewayDecl is a gateway block with the places of what others refer to.
type gatewayDecl struct {
	Gateway
	tokens   []*tokenDecl // with those that have faults
	tlsGiven bool         // or at least tried
}

// gateway reads the gateway block of the host, which may be absent.
func (d *decoder) gateway(block *hcl.Block) gatewayDecl {
	g := gatewayDecl{Gateway: Gateway{Limits: defaultGatewayLimits()}}
	if block == nil {
		return g
	}
	content, _ := d.content(block.Body, gatewaySchema)
	g.Hosts = d.checked(content.Attributes, "hosts", "one element per name", d.hostName)
	g.URL = d.ownURL(d.str(content.Attributes, "url", ""))
	g.Origins = d.checked(content.Attributes, "origins", "one element per origin", d.origin)
	g.PlainHTTP = d.boolean(content.Attributes, "plain_http", false).V
	if tls := d.single(content, "tls"); tls != nil {
		g.tlsGiven = true
		g.TLS = d.tls(tls)
	}
	if limits := d.single(content, "limits"); limits != nil {
		g.Limits = d.gatewayLimits(limits)
	}
	for _, block := range content.Blocks {
		if block.Type == "token" {
			g.tokens = append(g.tokens, d.token(block))
		}
	}
	d.distinctTokens(g.tokens)
	for _, token := range g.tokens {
		g.Tokens = append(g.Tokens, token.Token)
	}
	return g
}

func (d *decoder) gatewayLimits(block *hcl.Block) GatewayLimits {
	attrs := d.attrs(block, gatewayLimitsSchema)
	l := defaultGatewayLimits()
	l.Body = d.size(attrs, "body", l.Body, 64<<10).V
	l.Headers = d.size(attrs, "headers", l.Headers, 4<<10).V
	l.Requests = d.whole(attrs, "requests", l.Requests, 1, math.MaxInt32).V
	l.Listeners = d.whole(attrs, "listeners", l.Listeners, 1, math.MaxInt32).V
	l.Connections = d.whole(attrs, "connections", l.Connections, 1, math.MaxInt32).V
	l.Sessions = d.whole(attrs, "sessions", l.Sessions, 1, math.MaxInt32).V
	l.SessionIdle = d.duration(attrs, "session_idle", l.SessionIdle, time.Second).V
	return l
}

// checked reads a list of strings that a check lets pass, as it returns them.
func (d *decoder) checked(attrs hcl.Attributes, name, want string, check func(val[string], string) (string, bool)) []string {
	list, _, _ := d.strings(attrs, name, want)
	var good []string
	for _, element := range list {
		if s, ok := check(element, name); ok && !slices.Contains(good, s) {
			good = append(good, s)
		}
	}
	return good
}

// hostName checks a name that clients may call the gateway by.
func (d *decoder) hostName(v val[string], name string) (string, bool) {
	host := strings.ToLower(v.V)
	if _, err := netip.ParseAddr(host); err == nil {
		return host, true
	}
	if host == "" || strings.ContainsAny(host, "/:@*?# \t[]") {
		d.diags.errorf(v.Range, "Not a host name",
			`%s: a name as in the address of the gateway is wanted, without scheme and port, for instance "mcp.example.org", but not %s.`, name, quote(v.V))
		return "", false
	}
	return host, true
}

// origin checks a web origin, and returns it as browsers write it.
func (d *decoder) origin(v val[string], name string) (string, bool) {
	origin, ok := asOrigin(v.V)
	if !ok {
		d.diags.errorf(v.Range, "Not an origin",
			`%s: scheme and host of a web page are wanted, with the port if it is not the usual one and nothing after it, for instance "https://app.example.org", but not %s.`,
			name, quote(v.V))
	}
	return origin, ok
}

// ownURL checks the gateway's own URL, which may be absent.
func (d *decoder) ownURL(v val[string]) string {
	if !v.Set {
		return ""
	}
	origin, ok := asOrigin(v.V)
	if !ok {
		d.diags.errorf(v.Range, "Not the URL of a gateway",
			`url: scheme and host are wanted, with the port if it is not the usual one and nothing after it, for instance "https://agents.example.org", but not %s.`,
			quote(v.V))
	}
	return origin
}

// asOrigin returns scheme and host of a URL that has nothing else, in small
// letters.
func asOrigin(text string) (string, bool) {
	u, err := url.Parse(strings.ToLower(text))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Scheme+"://"+u.Host != strings.ToLower(text) {
		return "", false
	}
	return u.Scheme + "://" + u.Host, true
}

// exposed checks that a gateway which listens off the loopback interface is
// guarded.
func (d *decoder) exposed(listen val[string], g gatewayDecl) {
	if len(g.tokens) == 0 {
		d.diags.errorf(listen.Range, "Token required",
			`listen: others than this machine reach %s, so those who call must have a token. Write in the host block:

  gateway {
    token "NAME" {
      file = "FILE"
    }
  }

where FILE holds what 'openssl rand -hex 32' prints.`, listen.V)
	}
	if !g.tlsGiven && !g.PlainHTTP {
		d.diags.errorf(listen.Range, "TLS required",
			`listen: others than this machine reach %s, and without TLS they read along. Write in the gateway block of the host:

  tls {
    certificate = "FILE"
    key         = "FILE"
  }

or plain_http = true if something in front of the gateway does that.`, listen.V)
	}
}
