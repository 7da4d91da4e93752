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

var (
	serviceSchema = blocks(
		attributes("command", "dir", "env", "inherit", "port", "depends_on",
			"on_host_exit", "orphan_ttl",
			"checksum", "user", "group", "no_new_privs"),
		"ready", "health", "restart", "stop", "tools", "limits")
	readySchema   = attributes("timeout")
	healthSchema  = attributes("interval", "timeout", "failures")
	restartSchema = attributes("policy", "delay", "factor", "max_delay", "jitter", "reset_after", "limit", "within")
	stopSchema    = attributes("grace")
)

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
	s.Range = d.header(block)
	s.Kind, s.kindKnown = d.kind(block)
	s.Name = block.Labels[1]
	d.serviceName(block)

	content, _ := d.content(block.Body, serviceSchema)
	attrs := content.Attributes
	s.Command, s.Path = d.command(content, d.misspelt(block.Body, serviceSchema, "command"))
	s.Dir = d.directory(attrs, "dir").V
	s.Env = d.variables(attrs)
	s.Inherit = d.inherited(attrs)
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
	if restart := d.single(content, "restart"); restart != nil {
		s.Restart = d.restart(restart)
	}
	s.StopGrace = defaultStopGrace
	if stop := d.single(content, "stop"); stop != nil {
		s.StopGrace = d.duration(d.attrs(stop, stopSchema), "grace", defaultStopGrace, 0).V
	}
	d.tools(s, d.single(content, "tools"))
	d.onHostExit(s, attrs)
	d.confinement(s, content)
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

// kind reads the first label. An unknown one that has a likely meaning is taken
// for it, so that only the label is reported.
func (d *decoder) kind(block *hcl.Block) (kind Kind, known bool) {
	kinds := []string{string(KindMCP), string(KindAgent)}
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

func (d *decoder) restart(block *hcl.Block) Restart {
	attrs := d.attrs(block, restartSchema)
	r := defaultRestart()
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
