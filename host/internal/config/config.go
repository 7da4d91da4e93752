package config

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/plughost/plughost/host/internal/account"
)

// Config is a whole configuration without a fault.
type Config struct {
	// Host holds the settings of the host itself; defaults are filled in.
	Host Host

	// Services are all declared services, in the order of the files and of
	// their positions in them.
	Services []Service

	// Files are the files that were read, by the names that ranges carry.
	// They serve to print what is at a range.
	Files map[string]*hcl.File

	secrets  *secrecy
	warnings []Diagnostic
}

// Redact replaces in a text what was sensitive in the files.
func (c *Config) Redact(text string) string {
	if c.secrets == nil {
		return text
	}
	return c.secrets.replacer().Replace(text)
}

// Service returns the service that ref names.
func (c *Config) Service(ref Ref) (Service, bool) {
	for _, s := range c.Services {
		if s.Kind == ref.Kind && s.Name == ref.Name {
			return s, true
		}
	}
	return Service{}, false
}

// Host holds the settings of the host itself.
type Host struct {
	// Listen is the address and port of the gateway. Default "127.0.0.1:7433".
	// Port 0 means any free port.
	Listen string

	// StateDir is the absolute path of the state directory, or empty if the
	// configuration leaves the choice to the command.
	StateDir string

	// ShutdownTimeout bounds the stop of the whole host. Default 30s.
	ShutdownTimeout time.Duration

	// LogLevel is one of trace, debug, info, warn and error. Default info.
	LogLevel string

	// StartLimit is how many services may be starting at once. Default 16.
	StartLimit int
	// Logs bounds what the logs of the services take of the disk.
	Logs Logs
	// Control says who may steer the host.
	Control Control
	// Gateway says who may use the gateway, how, and how much of it.
	Gateway Gateway
}

// Kind says what a service is.
type Kind string

// The kinds of service.
const (
	// KindMCP is an MCP server.
	KindMCP Kind = "mcp"
	// KindAgent is an A2A agent.
	KindAgent Kind = "agent"
)

// Ref names a service. Names are unique within a kind.
type Ref struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
}

// String returns the reference in its short form, such as "mcp.clock".
func (r Ref) String() string { return string(r.Kind) + "." + r.Name }

// Service is one declared service.
type Service struct {
	// Kind and Name are the labels of the block.
	Kind Kind
	Name string

	// Command is the argument vector. Its first element is as written; Path is
	// what to execute.
	Command []string

	// Exec is the argument vector of an MCP server that is no plugin: it speaks
	// on standard input and output. A service has one of Command, Exec and URL.
	Exec []string

	// Path is the absolute path of the executable that Command or Exec names.
	// Symbolic links in it are kept, since some programs ask by which name they
	// were called.
	Path string

	// Sessions says how a server of Exec serves: SessionsShared,
	// SessionsIsolated or SessionsNone; empty without Exec. Default
	// SessionsShared.
	Sessions string

	// URL is of a remote MCP server, which speaks Streamable HTTP.
	URL string

	// Headers go with every request to URL, under their canonical names. They
	// may be secret.
	Headers map[string]string

	// Dir is the absolute path of the working directory. Default: the
	// directory of the file that declares the service.
	Dir string

	// Env are variables set for the service. They win over inherited ones.
	Env map[string]string

	// Inherit are the names of the variables that are passed on from the
	// host's own environment; nothing else is. One that the host does not have
	// is left out.
	Inherit []string

	// Port is the TCP port that the service listens on, or 0 if it declares
	// none.
	Port int

	// DependsOn are the services that must be ready before this one starts, as
	// written. They are declared, and there is no cycle.
	DependsOn []Ref

	// ReadyTimeout is how long a start may take. Default 10s.
	ReadyTimeout time.Duration

	// Restart says what happens after an exit.
	Restart Restart

	// Health says how a service that is ready is checked.
	Health Health

	// StopGrace is how long the service has to end by itself after it was told
	// to. Default 10s; 0 means that it is killed at once.
	StopGrace time.Duration

	// OnHostExit says what becomes of the process when the host's ends:
	// HostExitStop or HostExitKeep. Default HostExitStop.
	OnHostExit string

	// OrphanTTL is how long a process that was kept goes on without a host; 0
	// unless OnHostExit is HostExitKeep. Default 1h.
	OrphanTTL time.Duration

	// Tools says which tools an MCP service offers, or an agent may call.
	Tools Tools

	// Push says where the push notifications of an agent's tasks may be sent.
	Push Push

	// Checksum is the SHA-256 that the executable must have, in hexadecimal, or
	// empty.
	Checksum string

	// Account is whom the service runs as, or nil for whom the host runs as.
	Account *account.Account

	// NoNewPrivs says that no process of the service may gain privileges by an
	// exec. Default: whether Account is set.
	NoNewPrivs bool

	// Limits are what the service may use.
	Limits Limits

	// Config is what the plugin is configured with, or nil without a config
	// block.
	Config *PluginConfig

	// Sensitive are the attributes whose values came from something sensitive,
	// by the names that they have in a Difference. A whole map is in it by its
	// own name, such as env, where its names cannot be told apart.
	Sensitive []string

	// Range is the header of the block, for messages about the service.
	Range hcl.Range
}

// Ref returns the name of the service.
func (s Service) Ref() Ref { return Ref{Kind: s.Kind, Name: s.Name} }

// IsSensitive reports whether the value of an attribute, such as port or
// env.TOKEN, is to be shown nowhere.
func (s Service) IsSensitive(attribute string) bool {
	whole, _, _ := strings.Cut(attribute, ".")
	return slices.Contains(s.Sensitive, attribute) || slices.Contains(s.Sensitive, whole)
}

// SecretCommand reports whether an argument of the program is to be shown
// nowhere.
func (s Service) SecretCommand() bool { return s.IsSensitive("command") || s.IsSensitive("exec") }

// Hash returns a digest of all that a running instance was made from: kind,
// name, command or what is served in its place, executable path, directory,
// variables, inherited names, port, what it does when the host ends, what it is
// held to and its own configuration. Two configurations whose service has the
// same hash need no new instance. What the host can change while the instance
// runs (dependencies, time limits, restart policy, tools) is not part of it, nor
// are the position in the file, the order of variables or the content of the
// executable.
func (s Service) Hash() string {
	h := sha256.New()
	text := func(v string) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(v)))
		h.Write(size[:])
		h.Write([]byte(v))
	}
	number := func(n int) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
	text("plughost service 1")
	text(string(s.Kind))
	text(s.Name)
	number(len(s.Command))
	for _, arg := range s.Command {
		text(arg)
	}
	text(s.Path)
	text(s.Dir)
	number(len(s.Env))
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		text(name)
		text(s.Env[name])
	}
	inherit := slices.Compact(slices.Sorted(slices.Values(s.Inherit)))
	number(len(inherit))
	for _, name := range inherit {
		text(name)
	}
	number(s.Port)
	for _, word := range s.bridgeText() {
		text(word)
	}
	text(s.OnHostExit)
	number(int(s.OrphanTTL))
	for _, word := range s.confinementText() {
		text(word)
	}
	text(string(s.Settings()))
	return hex.EncodeToString(h.Sum(nil))
}

// The restart policies.
const (
	// RestartAlways restarts after every exit that was not asked for.
	RestartAlways = "always"
	// RestartOnFailure restarts after an exit with a status other than 0, or
	// by a signal.
	RestartOnFailure = "on-failure"
	// RestartNever leaves a service that exited alone.
	RestartNever = "never"
)

// What becomes of a service's process when the host's ends.
const (
	// HostExitStop ends it with the host, however that ends.
	HostExitStop = "stop"
	// HostExitKeep has it go on. The next host of the installation takes it
	// over if it is healthy and was started as it would be started then.
	HostExitKeep = "keep"
)

// Health says how a service that is ready is checked.
type Health struct {
	// Interval is the time between two checks. Default 10s; 0 means that
	// there are none.
	Interval time.Duration

	// Timeout is how long an answer may take. Default 2s.
	Timeout time.Duration

	// Failures is how many checks in a row may fail before the service is
	// ended, and started again by its restart policy. Default 3.
	Failures int
}

// Restart says what happens after a service exited by itself. The n-th restart
// in a row waits Delay times Factor to the power of n-1, at most MaxDelay, give
// or take the share Jitter.
type Restart struct {
	// Policy is one of RestartAlways, RestartOnFailure and RestartNever.
	// Default RestartAlways.
	Policy string

	// Delay is the wait before the first restart. Default 500ms.
	Delay time.Duration

	// MaxDelay bounds the wait; it is not below Delay. Default 30s, or Delay
	// where that is longer.
	MaxDelay time.Duration

	// ResetAfter is how long a service must have run for the waits to begin at
	// Delay again. Default 30s.
	ResetAfter time.Duration

	// Within is the span in which Limit counts. Default 10m.
	Within time.Duration

	// Factor is by how much each wait is longer than the one before; at least
	// 1. Default 2.
	Factor float64

	// Jitter is the share of a wait that is left to chance: 0 for none, below
	// 1. Default 0.1.
	Jitter float64

	// Limit is how many restarts are made within Within before the service
	// counts as failed; 0 means no limit. Default 10.
	Limit int
}
