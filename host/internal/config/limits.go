package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/plughost/plughost/host/internal/account"
)

// Limits are what a service may use of the machine. A zero value is no limit.
type Limits struct {
	// Memory is in bytes, CPUs in processors, and Processes counts processes
	// and threads; they hold for all processes of the service together.
	Memory    int64
	CPUs      float64
	Processes int

	// OpenFiles is how many descriptors each process may have.
	OpenFiles int

	// Nice is the priority, from -20, the highest, to 19; nil for the host's.
	Nice *int
}

// Bounds of what limits accept.
const (
	minMemory    = 1 << 20
	minCPUs      = 0.01
	minOpenFiles = 16
)

var limitsSchema = Block{
	Type: "limits",
	Doc:  "What the service may use of the machine. There is no limit that is not written.",
	Attributes: []Attribute{
		{
			Name: "memory", Type: TypeSize, DefaultDoc: "none", Range: "at least `1MiB`", Example: `"512MiB"`,
			Doc: "of all its processes together, without swap. If they exceed it the kernel ends them all",
		},
		{
			Name: "cpus", Type: TypeNumber, DefaultDoc: "none", Unit: "processors", Range: "from 0.01 on", Example: "0.5",
			Doc: "whose time all its processes together may use",
		},
		{
			Name: "processes", Type: TypeNumber, DefaultDoc: "none", Unit: "processes", Range: "from 1 on", Example: "64",
			Doc: "how many processes and threads there may be. A plugin in Go has about ten threads",
		},
		{
			Name: "open_files", Type: TypeNumber, DefaultDoc: "none", Unit: "descriptors", Range: "from 16 on", Example: "1024",
			Doc: "how many descriptors each of its processes may have, as soft and as hard limit",
		},
		{
			Name: "nice", Type: TypeNumber, DefaultDoc: "none", Range: "-20 to 19", Example: "5",
			Doc: "its priority; the higher the number, the more it yields to others. Not relative to the host's",
		},
	},
}

// confinement reads what a service is held to.
func (d *decoder) confinement(s *serviceDecl, content *hcl.BodyContent) {
	attrs := content.Attributes
	s.Checksum = d.checksum(attrs)
	s.Account = d.account(attrs)
	noNewPrivs := d.boolean(attrs, "no_new_privs", s.Account != nil)
	s.NoNewPrivs = noNewPrivs.V
	if noNewPrivs.Set && noNewPrivs.V {
		d.onlyOn(noNewPrivs.Range, "no_new_privs", "linux")
	}
	block := d.single(content, "limits")
	if block == nil {
		return
	}
	attrs = d.attrs(block, limitsSchema)
	memory := d.size(attrs, "memory", 0, minMemory)
	cpus := d.decimal(attrs, "cpus", 0, "a number of processors from 0.01 on, such as 0.5",
		func(f float64) bool { return f >= minCPUs && f <= math.MaxInt16 })
	processes := d.whole(attrs, "processes", 0, 1, math.MaxInt32)
	files := d.whole(attrs, "open_files", 0, minOpenFiles, math.MaxInt32)
	nice := d.whole(attrs, "nice", 0, -20, 19)
	s.Limits = Limits{Memory: memory.V, CPUs: cpus.V, Processes: processes.V, OpenFiles: files.V}
	if nice.Set {
		s.Limits.Nice = &nice.V
	}
	for name, set := range map[string]bool{"memory": memory.Set, "cpus": cpus.Set, "processes": processes.Set} {
		if set {
			d.onlyOn(attrs[name].Expr.Range(), "limits."+name, "linux")
		}
	}
	for name, set := range map[string]bool{"open_files": files.Set, "nice": nice.Set} {
		if set {
			d.onlyOn(attrs[name].Expr.Range(), "limits."+name, "linux", "darwin", "freebsd")
		}
	}
}

// onlyOn warns of what this system cannot do.
func (d *decoder) onlyOn(rng hcl.Range, what string, systems ...string) {
	if !slices.Contains(systems, runtime.GOOS) {
		d.diags.warnf(rng, "Not available here", "%s has no effect on %s, only on %s.", what, runtime.GOOS, listed(systems, "and"))
	}
}

var checksumPattern = regexp.MustCompile(`^sha256:[0-9a-fA-F]{64}$`)

// checksum returns the digest alone, in small letters.
func (d *decoder) checksum(attrs hcl.Attributes) string {
	sum := d.str(attrs, "checksum", "")
	if !sum.Set {
		return ""
	}
	if checksumPattern.MatchString(sum.V) {
		return strings.ToLower(strings.TrimPrefix(sum.V, "sha256:"))
	}
	algorithm, digest, ok := strings.Cut(sum.V, ":")
	problem := ""
	switch {
	case !ok && len(sum.V) == 64:
		problem = ` The name of the algorithm is missing: write "sha256:" before it.`
	case ok && algorithm != "sha256":
		problem = fmt.Sprintf(" The only algorithm is sha256, not %s.", quote(algorithm))
	case ok && len(digest) != 64:
		problem = fmt.Sprintf(" There are %d digits.", len(digest))
	}
	d.diags.errorf(sum.Range, "Not a checksum",
		`checksum: "sha256:" and 64 hexadecimal digits are wanted, as sha256sum prints them.%s`, problem)
	return ""
}

// account finds whom a service runs as, or returns nil for whom the host runs
// as.
func (d *decoder) account(attrs hcl.Attributes) *account.Account {
	name, group := d.str(attrs, "user", ""), d.str(attrs, "group", "")
	switch {
	case !name.Set && group.Set:
		d.diags.errorf(group.Range, "Group without user", "group: it is the primary group of user, which is missing.")
		return nil
	case !name.Set:
		return nil
	case runtime.GOOS == "windows":
		d.diags.errorf(name.Range, "Not available here", "user: on windows services run as the user that runs the host. Remove it.")
		return nil
	}
	a, err := account.Lookup(name.V, group.V)
	var missing *account.NotFoundError
	switch {
	case errors.As(err, &missing) && missing.What == "group":
		d.diags.errorf(group.Range, "Group not found", "group: %s.", err)
	case errors.As(err, &missing):
		d.diags.errorf(name.Range, "User not found", "user: %s.", err)
	case errors.Is(err, account.ErrNoGroup):
		d.diags.errorf(name.Range, "User without group", "user: %s is a number without an account, so it has no group. Name one in group.", name.V)
	case err != nil:
		d.diags.errorf(name.Range, "User not found", "user: %s.", err)
	case os.Geteuid() == int(a.UID) && os.Geteuid() != 0 && !group.Set:
		return nil // the host's own user
	case os.Geteuid() != 0:
		d.diags.errorf(name.Range, "Not allowed", "user: only a host that runs as root can start a service as another user, and this one runs as uid %d. Run it as root, or remove user.", os.Geteuid())
	default:
		return a
	}
	return nil
}

// boolean reads true or false.
func (d *decoder) boolean(attrs hcl.Attributes, name string, fallback bool) val[bool] {
	out := val[bool]{V: fallback}
	v, rng, ok := d.attribute(attrs, name)
	out.Range = rng
	if !ok {
		return out
	}
	b, err := convert.Convert(v, cty.Bool)
	if err != nil || b.IsNull() {
		d.mistyped(rng, name, "true or false", v)
		return out
	}
	out.V, out.Set = b.True(), true
	return out
}

// confinementText returns what an instance is held to, for the service's hash:
// nothing if it is held to nothing.
func (s Service) confinementText() []string {
	var words []string
	add := func(name string, value any) { words = append(words, fmt.Sprintf("%s=%v", name, value)) }
	if s.Checksum != "" {
		add("checksum", s.Checksum)
	}
	if s.Account != nil {
		add("account", *s.Account)
	}
	if s.NoNewPrivs {
		add("no_new_privs", true)
	}
	limits := s.Limits
	if limits.Nice != nil {
		add("nice", *limits.Nice)
		limits.Nice = nil
	}
	if limits != (Limits{}) {
		add("limits", limits)
	}
	return words
}
