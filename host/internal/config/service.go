package config

import (
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// The defaults of a service.
const (
	defaultReadyTimeout = 10 * time.Second
	defaultStopGrace    = 10 * time.Second
	defaultOrphanTTL    = time.Hour
)

// defaultHealth returns what holds without a health block.
func defaultHealth() Health {
	return Health{Interval: 10 * time.Second, Timeout: 2 * time.Second, Failures: 3}
}

// defaultRestart returns what holds without a restart block.
func defaultRestart() Restart {
	return Restart{
		Policy:     RestartAlways,
		Delay:      500 * time.Millisecond,
		MaxDelay:   30 * time.Second,
		ResetAfter: 30 * time.Second,
		Within:     10 * time.Minute,
		Factor:     2,
		Jitter:     0.1,
		Limit:      10,
	}
}

var serviceSchema = Block{
	Type: "service", Labels: []string{"kind", "name"}, Many: true,
	Doc: "A plugin that the host runs: an MCP server, of the kind `mcp`, or an A2A agent, of the kind `agent`.",
	Attributes: []Attribute{
		{
			Name: "command", Type: TypeStrings, DefaultDoc: "required, or `exec` or `url`", Example: `["bin/mcp-example"]`,
			Doc: "the plugin and its arguments, one element each; no shell is involved. A name without a slash is looked up on the host's `PATH`",
		},
		{
			Name: "exec", Type: TypeStrings, DefaultDoc: "none", Example: `["npx", "-y", "@modelcontextprotocol/server-everything"]`,
			Doc: "in the place of `command`: any MCP server that speaks on standard input and output, and its arguments; see [below](#servers-that-are-no-plugins)",
		},
		{
			Name: "sessions", Type: TypeString, Default: `"shared"`, Values: []string{SessionsShared, SessionsIsolated, SessionsNone},
			Doc: "with `exec`: one process serves all clients in one session, or each session has a process of its own, or one process serves all without any session",
		},
		{
			Name: "url", Type: TypeString, DefaultDoc: "none", Example: `"https://example.com/mcp"`,
			Doc: "in the place of `command`: a remote MCP server that speaks Streamable HTTP, see [below](#remote-servers), or a remote agent, see [agents.md](agents.md#remote-agents)",
		},
		{
			Name: "headers", Type: TypeMap, DefaultDoc: "none", Example: `{ Authorization = "Bearer ${env("TOKEN")}" }`,
			Doc: "with `url`: headers of every request. Their values are shown nowhere",
		},
		{Name: "dir", Type: TypePath, DefaultDoc: "the file's directory", Example: `"/"`, Doc: "working directory"},
		{Name: "env", Type: TypeMap, DefaultDoc: "none", Example: `{ LOG = "debug" }`, Doc: "variables to set"},
		{
			Name: "inherit", Type: TypeStrings, DefaultDoc: "none", Example: `["PATH", "HOME"]`,
			Doc: "names of variables of the host's environment to pass on. Nothing else of it is. `env` goes before it",
		},
		{
			Name: "port", Type: TypeNumber, DefaultDoc: "none", Range: "1 to 65535", Example: "8101",
			Doc: "TCP port on 127.0.0.1 on which the plugin serves its protocol too. It gets it as `PLUGHOST_PORT`; the host makes sure that nobody else holds it",
		},
		{
			Name: "depends_on", Type: TypeReferences, DefaultDoc: "none", Example: "[service.mcp.clock]",
			Doc: "services that must be ready before this one starts",
		},
		{
			Name: "on_host_exit", Type: TypeString, Default: `"stop"`, Values: []string{HostExitStop, HostExitKeep},
			Doc: "what becomes of the service's process when the host's ends; see [below](#services-that-outlive-the-host)",
		},
		{
			Name: "orphan_ttl", Type: TypeDuration, Default: `"1h"`, Range: "at least `1s`",
			Doc: "how long a process that was kept goes on without a host; only with `on_host_exit = \"keep\"`",
		},
		{
			Name: "checksum", Type: TypeString, DefaultDoc: "none", Example: `"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`,
			Doc: "what the executable must be; see [below](#checksum)",
		},
		{
			Name: "user", Type: TypeString, DefaultDoc: "the host's own", Example: `"nobody"`,
			Doc: "name or number of the user that the service runs as; see [below](#user-and-group)",
		},
		{Name: "group", Type: TypeString, DefaultDoc: "the user's own", Example: `"nogroup"`, Doc: "name or number of the primary group"},
		{
			Name: "no_new_privs", Type: TypeBool, DefaultDoc: "`true` with `user`, else `false`", Example: "true",
			Doc: "no process of the service can gain privileges by executing a file that is setuid or has capabilities (Linux's `PR_SET_NO_NEW_PRIVS`)",
		},
	},
	Blocks: []Block{configSchema, readySchema, healthSchema, restartSchema, stopSchema, limitsSchema, toolsSchema, pushSchema},
}

var readySchema = Block{
	Type: "ready",
	Doc:  "When a start has failed.",
	Attributes: []Attribute{
		{Name: "timeout", Type: TypeDuration, Default: `"10s"`, Doc: "how long a start may take, from the spawn to the plugin's first answer"},
	},
}

var healthSchema = Block{
	Type: "health",
	Doc: "A service that is ready is asked again and again whether it can do its work. When a check fails it is `unhealthy`, " +
		"until one goes well; when too many in a row fail it is ended, and started again by its restart policy.",
	Attributes: []Attribute{
		{Name: "interval", Type: TypeDuration, Default: `"10s"`, Doc: "between two checks. `\"0s\"` means none"},
		{Name: "timeout", Type: TypeDuration, Default: `"2s"`, Doc: "how long an answer may take"},
		{Name: "failures", Type: TypeNumber, Default: "3", Unit: "checks", Range: "1 to 1000", Doc: "how many in a row may not fail"},
	},
}

var restartSchema = Block{
	Type: "restart",
	Doc:  "What happens when a plugin ends by itself, or cannot be started.",
	Attributes: []Attribute{
		{
			Name: "policy", Type: TypeString, Default: `"always"`, Values: []string{RestartAlways, RestartOnFailure, RestartNever},
			Doc: "when it is started again; `on-failure` leaves a plugin that exits with status 0 alone",
		},
		{Name: "delay", Type: TypeDuration, Default: `"500ms"`, Doc: "before the first restart"},
		{Name: "factor", Type: TypeNumber, Default: "2", Range: "from 1 on", Doc: "by which the delay grows with each failure"},
		{Name: "max_delay", Type: TypeDuration, Default: `"30s"`, Doc: "which it does not exceed"},
		{Name: "jitter", Type: TypeNumber, Default: "0.1", Range: "from 0 to below 1", Doc: "by what part of itself a delay is made longer or shorter at random"},
		{Name: "reset_after", Type: TypeDuration, Default: `"30s"`, Doc: "a service that was ready for so long begins again with `delay`"},
		{
			Name: "limit", Type: TypeNumber, Default: "10", Unit: "failures", Range: "from 0 on",
			Doc: "so many failures `within` are put up with; with the next one the service is `failed`. 0 means no limit",
		},
		{Name: "within", Type: TypeDuration, Default: `"10m"`, Doc: "the time in which `limit` counts"},
	},
}

var stopSchema = Block{
	Type: "stop",
	Doc:  "How a service is ended.",
	Attributes: []Attribute{
		{Name: "grace", Type: TypeDuration, Default: `"10s"`, Doc: "what the service gets to finish what it has begun before it is killed"},
	},
}

// serviceDecl is a service with the places of what others refer to.
type serviceDecl struct {
	Service
	port      val[int]
	dependsOn []val[Ref]
	allow     []val[string]
	deny      []val[string]
	kindKnown bool
}

func (d *decoder) service(block *hcl.Block) *serviceDecl {
	s := &serviceDecl{}
	evaluated := len(d.diags.latest)
	s.Range = d.header(block)
	s.Kind, s.kindKnown = d.kind(block)
	s.Name = block.Labels[1]
	d.serviceName(block)

	content, _ := d.content(block.Body, serviceSchema)
	attrs := content.Attributes
	d.program(s, block, content)
	s.Dir = d.directory(attrs, "dir").V
	s.Env = d.variables(attrs)
	s.Inherit = d.inherited(attrs)
	d.interpreter(s, attrs)
	s.port = d.whole(attrs, "port", 0, 1, 65535)
	s.Port = s.port.V
	s.dependsOn = d.references(attrs, "depends_on")
	for _, dep := range s.dependsOn {
		s.DependsOn = append(s.DependsOn, dep.V)
	}

	s.ReadyTimeout = defaultReadyTimeout
	if ready := d.single(content, "ready"); ready != nil {
		s.ReadyTimeout = d.duration(d.attrs(ready, readySchema), "timeout", defaultReadyTimeout, 1).V
	}
	s.Health = defaultHealth()
	if health := d.single(content, "health"); health != nil {
		attrs := d.attrs(health, healthSchema)
		s.Health.Interval = d.duration(attrs, "interval", s.Health.Interval, 0).V
		s.Health.Timeout = d.duration(attrs, "timeout", s.Health.Timeout, 1).V
		s.Health.Failures = d.whole(attrs, "failures", s.Health.Failures, 1, 1000).V
	}
	s.Restart = defaultRestart()
	if s.URL != "" {
		s.Restart.Limit = 0 // it may be away for long, and comes back by itself
	}
	if restart := d.single(content, "restart"); restart != nil {
		s.Restart = d.restart(restart, s.Restart)
	}
	s.StopGrace = defaultStopGrace
	if stop := d.single(content, "stop"); stop != nil {
		s.StopGrace = d.duration(d.attrs(stop, stopSchema), "grace", defaultStopGrace, 0).V
	}
	d.tools(s, d.single(content, "tools"))
	d.push(s, d.single(content, "push"))
	d.onHostExit(s, attrs)
	d.confinement(s, content)
	s.Config = d.pluginConfig(content)
	s.Sensitive = d.sensitiveAttributes(block, serviceSchema, "", d.diags.latest[evaluated:])
	d.secretArguments(s, attrs)
	return s
}

// onHostExit reads what becomes of the service's process when the host's ends.
func (d *decoder) onHostExit(s *serviceDecl, attrs hcl.Attributes) {
	onExit := d.oneOf(attrs, "on_host_exit", HostExitStop, HostExitStop, HostExitKeep)
	ttl := d.duration(attrs, "orphan_ttl", defaultOrphanTTL, time.Second)
	s.OnHostExit = onExit.V
	if s.OnHostExit != HostExitKeep {
		if said := attrs["on_host_exit"] == nil || onExit.Set; ttl.Set && said {
			d.diags.errorf(ttl.Range, "Attribute without effect",
				`orphan_ttl: it says how long a process is kept that nobody supervises, so it needs on_host_exit = "keep".`)
		}
		return
	}
	s.OrphanTTL = ttl.V
	if !canKeep {
		d.diags.errorf(onExit.Range, "Not possible on this system",
			`on_host_exit: on this system processes end with the host. Remove the attribute, or write "stop".`)
	}
}

func kindNames() []string { return []string{string(KindMCP), string(KindAgent)} }

// kind reads the first label. An unknown one that has a likely meaning is taken
// for it, so that only the label is reported.
func (d *decoder) kind(block *hcl.Block) (kind Kind, known bool) {
	kinds := kindNames()
	label := block.Labels[0]
	switch Kind(label) {
	case KindMCP, KindAgent:
		return Kind(label), true
	}
	d.diags.errorf(block.LabelRanges[0], "Unknown kind of service", `A service is of kind "mcp" (an MCP server) or "agent" (an A2A agent), not %s.%s`,
		quote(label), didYouMean(label, kinds))
	if near := suggest(label, kinds); near != "" {
		return Kind(near), true
	}
	return Kind(label), false
}

// maxServiceName bounds names, so that <service>__<tool> stays within what
// clients accept as the name of a tool.
const maxServiceName = 40

var (
	serviceNamePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	notInServiceName   = regexp.MustCompile(`[^a-z0-9]+`)
)

// serviceName checks the second label.
func (d *decoder) serviceName(block *hcl.Block) {
	name := block.Labels[1]
	if serviceNamePattern.MatchString(name) {
		return
	}
	hint := ""
	better := strings.Trim(notInServiceName.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if better = strings.TrimLeft(better, "0123456789-"); len(better) > maxServiceName {
		better = strings.TrimRight(better[:maxServiceName], "-")
	}
	if serviceNamePattern.MatchString(better) {
		hint = " For instance " + quote(better) + "."
	}
	d.diags.errorf(block.LabelRanges[1], "Not a valid name",
		"The name of a service begins with a small letter and goes on with small letters, digits and dashes, %d characters at most, since it becomes part of addresses and of the names of tools.%s",
		maxServiceName, hint)
}

func (d *decoder) restart(block *hcl.Block, r Restart) Restart {
	attrs := d.attrs(block, restartSchema)
	r.Policy = d.oneOf(attrs, "policy", r.Policy, RestartAlways, RestartOnFailure, RestartNever).V
	delay := d.duration(attrs, "delay", r.Delay, 0)
	maxDelay := d.duration(attrs, "max_delay", r.MaxDelay, 0)
	r.Delay, r.MaxDelay = delay.V, maxDelay.V
	if r.MaxDelay < r.Delay {
		if maxDelay.Set {
			d.diags.errorf(maxDelay.Range, "Restart delays contradict", "max_delay: it cannot be below delay, which is %s.", r.Delay)
		}
		r.MaxDelay = r.Delay
	}
	r.Factor = d.decimal(attrs, "factor", r.Factor, "a number from 1 on",
		func(f float64) bool { return f >= 1 }).V
	r.Jitter = d.decimal(attrs, "jitter", r.Jitter, "a number from 0 to below 1",
		func(f float64) bool { return f >= 0 && f < 1 }).V
	r.ResetAfter = d.duration(attrs, "reset_after", r.ResetAfter, 0).V
	r.Limit = d.whole(attrs, "limit", r.Limit, 0, math.MaxInt32).V
	r.Within = d.duration(attrs, "within", r.Within, 1).V
	return r
}
