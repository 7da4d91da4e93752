package config

import (
	"crypto/sha256"
	"os"
	"regexp"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Token is what a caller of the gateway shows to be let in.
type Token struct {
	Name string

	// Digest is the SHA-256 of the token. The token itself is not kept.
	Digest [sha256.Size]byte

	// Access is what its bearer may reach.
	Access Access
}

// minToken is long enough, in bytes, for a token that was not thought up to be
// beyond guessing.
const minToken = 16

var tokenSchema = Block{
	Type:   "token",
	Labels: []string{"name"},
	Many:   true,
	Doc: "Lets those in who show it. As soon as there is one, every request needs one. Its name stands in logs. " +
		"It is given by `file` or by `value`.",
	Attributes: []Attribute{
		{Name: "file", Type: TypePath, DefaultDoc: "none", Example: `"token"`, Doc: "a file that holds the token; a warning tells if other users can read it"},
		{
			Name: "value", Type: TypeString, DefaultDoc: "none", Example: `env("TOKEN")`, Range: "16 characters or more",
			Doc: "the token itself. It is shown nowhere",
		},
		{
			Name: "services", Type: TypeStrings, DefaultDoc: "those of which `tools` allows something", Example: `["clock"]`,
			Doc: "patterns of the MCP services that its bearer may reach",
		},
		{Name: "agents", Type: TypeStrings, Default: `["*"]`, Doc: "patterns of the agents that it may reach"},
		{Name: "metrics", Type: TypeBool, Default: "false", Doc: "whether it may read `/metrics`"},
	},
	Blocks: []Block{callableSchema},
}

var callableSchema = Block{
	Type: "tools",
	Doc:  "What the bearer of a token sees and may call, each as `SERVICE/TOOL`. `*` and `?` are wildcards.",
	Attributes: []Attribute{
		{Name: "allow", Type: TypeStrings, Default: `["*/*"]`, Doc: "patterns of the tools"},
		{Name: "deny", Type: TypeStrings, DefaultDoc: "none", Example: `["*/delete_*"]`, Doc: "patterns of those that are none of them after all"},
	},
}

var (
	tokenNamePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,39}$`)
	// tokenPattern is what RFC 6750 allows after "Bearer".
	tokenPattern = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)
)

// tokenDecl is a token with the places of what others refer to.
type tokenDecl struct {
	Token
	header           hcl.Range
	known            bool // the token itself is
	services, agents []val[string]
	grants           []val[string]
}

func (d *decoder) token(block *hcl.Block) *tokenDecl {
	t := &tokenDecl{header: d.header(block)}
	t.Name = block.Labels[0]
	if !tokenNamePattern.MatchString(t.Name) {
		d.diags.errorf(block.LabelRanges[0], "Not a valid name",
			"The name of a token, which stands in logs in place of it, begins with a small letter and goes on with small letters, digits, - and _, 40 characters at most.")
	}
	faults := len(d.diags.list)
	content, _ := d.content(block.Body, tokenSchema)
	attrs := content.Attributes
	secret, from := d.secret(t, attrs)
	switch {
	case from != "":
		t.Digest, t.known = sha256.Sum256([]byte(secret)), d.goodToken(t, secret, from)
	case len(d.diags.list) == faults && !d.silent(attrs["value"]) && !d.silent(attrs["file"]):
		d.diags.errorf(t.header, "No token", `token %s: say what it is, by file = "FILE", a file that holds it, or by value.`, quote(t.Name))
	}
	t.services, t.Access.Services = d.names(attrs, "services", nil)
	t.agents, t.Access.Agents = d.names(attrs, "agents", []string{"*"})
	t.Access.Metrics = d.boolean(attrs, "metrics", false).V
	t.Access.Tools = Tools{Allow: []string{"*/*"}}
	if tools := d.single(content, "tools"); tools != nil {
		t.Access.Tools, t.grants = d.callable(tools)
	}
	return t
}

// silent reports whether an attribute has no value since something that it refers to
// is at fault, of which that is said.
func (d *decoder) silent(attr *hcl.Attribute) bool {
	if attr == nil {
		return false
	}
	_, ok := d.evaluate(attr.Expr)
	return !ok
}

// callable reads the tools that the bearer of a token may call.
func (d *decoder) callable(block *hcl.Block) (Tools, []val[string]) {
	attrs := d.attrs(block, callableSchema)
	allow, set := d.patterns(attrs, "allow", true)
	deny, _ := d.patterns(attrs, "deny", true)
	tools := Tools{Allow: texts(allow), Deny: texts(deny)}
	if !set {
		tools.Allow = []string{"*/*"}
	}
	return tools, append(allow, deny...)
}

// names reads patterns of names of services.
func (d *decoder) names(attrs hcl.Attributes, name string, fallback []string) ([]val[string], []string) {
	list, set := d.patterns(attrs, name, false)
	if !set {
		return nil, fallback
	}
	return list, append([]string{}, texts(list)...) // not nil: none is what was asked for
}

func texts(list []val[string]) []string {
	var all []string
	for _, v := range list {
		all = append(all, v.V)
	}
	return all
}

// secret reads the token itself, and says from which attribute it is.
func (d *decoder) secret(t *tokenDecl, attrs hcl.Attributes) (secret, from string) {
	if attr := attrs["value"]; attr != nil {
		d.diags.hide(attr.Range)
	}
	value, file := d.str(attrs, "value", ""), d.path(attrs, "file")
	switch {
	case value.Set && file.Set:
		d.diags.errorf(t.header, "Two tokens", "token %s: value and file are two ways to say the same; leave one of them out.", quote(t.Name))
	case value.Set:
		return withoutNewline(value.V), "value"
	case file.Set:
		text, err := readFile(file.V)
		if err != nil {
			d.diags.errorf(file.Range, "Token cannot be read", "file: %s: %s.", quote(file.V), reason(err))
			return "", ""
		}
		d.warnOfReaders(file, "file")
		return withoutNewline(text), "file"
	}
	return "", ""
}

// withoutNewline is a text without what editors and echo put at its end.
func withoutNewline(s string) string { return strings.TrimRight(s, "\r\n") }

// warnOfReaders warns of a file with a secret that other users can read.
func (d *decoder) warnOfReaders(file val[string], name string) {
	if info, err := os.Stat(file.V); err == nil && othersCanRead(info) {
		d.diags.warnf(file.Range, "Others can read it", "%s: every user of this machine can read %s. Run: chmod 600 %s", name, quote(file.V), file.V)
	}
}

// goodToken reports whether a token can be sent, and not be guessed.
func (d *decoder) goodToken(t *tokenDecl, secret, from string) bool {
	const advice = "Have one made: openssl rand -hex 32"
	switch {
	case secret == "":
		d.diags.errorf(t.header, "No token", "token %s: its %s is empty. %s", quote(t.Name), from, advice)
	case len(secret) < minToken:
		d.diags.errorf(t.header, "Token too short", "token %s: it could be guessed: at least %d characters are wanted. %s", quote(t.Name), minToken, advice)
	case !tokenPattern.MatchString(secret):
		d.diags.errorf(t.header, "Not a token",
			"token %s: only letters, digits and - . _ ~ + / can be sent as one, and = at its end; it is one line. %s", quote(t.Name), advice)
	default:
		return true
	}
	return false
}

// distinctTokens reports tokens of the same name and of the same value.
func (d *decoder) distinctTokens(tokens []*tokenDecl) {
	for i, t := range tokens {
		for _, before := range tokens[:i] {
			switch {
			case t.Name == before.Name:
				d.diags.errorf(t.header, "Duplicate token", "token %s is already declared at %s.", quote(t.Name), before.header)
			case t.known && before.known && t.Digest == before.Digest:
				d.diags.errorf(t.header, "Duplicate token", "token %s is the same as token %s at %s: a caller could not be told from the other.",
					quote(t.Name), quote(before.Name), before.header)
			}
		}
	}
}
