// Package marker owns the environment variables by which plughost knows the
// processes that it started, and the pure parsers that read them back out of
// an environment. It reads no live process; package probes does that.
package marker

// The marker variables. Every child of a host carries Subprocess, Installation,
// Instance and exactly one of MCPService and Agent. A host carries Host.
const (
	// Subprocess marks a process started by a host; its value is SubprocessValue.
	Subprocess = "PLUGHOST_SUBPROCESS"
	// MCPService holds the name of the service whose kind is KindMCP.
	MCPService = "PLUGHOST_MCP_SERVICE"
	// Agent holds the name of the service whose kind is KindAgent.
	Agent = "PLUGHOST_AGENT"
	// Installation holds the id of the installation that a child belongs to.
	Installation = "PLUGHOST_INSTALLATION"
	// Instance holds the id of the launch that a child stems from.
	Instance = "PLUGHOST_INSTANCE"
	// Host marks a host and holds the id of the installation that it serves.
	Host = "PLUGHOST_HOST"

	// SubprocessValue is the only value of Subprocess that marks a process.
	SubprocessValue = "1"
)

// Prefix is what all of the names begin with. Variables that are no markers
// (PLUGHOST_PORT is one) begin with it too.
const Prefix = "PLUGHOST_"

// Kind says what a marked process is.
type Kind string

// The kinds of marked processes.
const (
	KindMCP   Kind = "mcp"   // an MCP server, or a process below one
	KindAgent Kind = "agent" // an agent, or a process below one
	KindHost  Kind = "host"  // a host
)

// Identity is what the marker variables of one process say. The zero value
// says nothing.
type Identity struct {
	Kind         Kind   `json:"kind,omitempty"`
	Service      string `json:"service,omitempty"`      // name of the service; empty for a host
	Installation string `json:"installation,omitempty"` // id of the installation
	Instance     string `json:"instance,omitempty"`     // id of the launch; empty for a host
}

// IsZero reports whether the identity says nothing at all.
func (id Identity) IsZero() bool { return id == Identity{} }

// Matches reports whether the identity agrees with want in every field that
// want sets. An empty want agrees with everything, so a caller that is about
// to act on the answer has to set at least an installation or an instance.
func (id Identity) Matches(want Identity) bool {
	return (want.Kind == "" || want.Kind == id.Kind) &&
		(want.Service == "" || want.Service == id.Service) &&
		(want.Installation == "" || want.Installation == id.Installation) &&
		(want.Instance == "" || want.Instance == id.Instance)
}

// String describes the identity on one line, for logs and messages.
func (id Identity) String() string {
	switch {
	case id.IsZero():
		return "unmarked"
	case id.Kind == KindHost:
		return "host of installation " + id.Installation
	}
	return string(id.Kind) + " " + id.Service + ", instance " + id.Instance + ", installation " + id.Installation
}

// Environ returns the stamps, as NAME=value, that make a process carry this
// identity. Append them last to an environment from which Names were removed:
// a variable that is there twice identifies nothing. For KindHost that is the
// host's one variable. An identity of no known kind has no stamps.
func (id Identity) Environ() []string {
	var name string
	switch id.Kind {
	case KindHost:
		return []string{Host + "=" + id.Installation}
	case KindMCP:
		name = MCPService
	case KindAgent:
		name = Agent
	default:
		return nil
	}
	return []string{
		Subprocess + "=" + SubprocessValue,
		name + "=" + id.Service,
		Installation + "=" + id.Installation,
		Instance + "=" + id.Instance,
	}
}

// Names returns the names of all marker variables, in a fixed order. The
// caller owns the slice.
func Names() []string {
	names := make([]string, numVariables)
	for v := range names {
		names[v] = variable(v).name()
	}
	return names
}

// IsMarker reports whether name is the name of a marker variable. Case counts.
func IsMarker(name string) bool {
	_, ok := lookup(name)
	return ok
}

// Scrub returns env, a list of NAME=value, without the marker variables. The
// argument is left as it is.
func Scrub(env []string) []string {
	kept := make([]string, 0, len(env))
	for _, entry := range env {
		if _, _, ok := split(entry); !ok {
			kept = append(kept, entry)
		}
	}
	return kept
}

// variable numbers the marker variables.
type variable int

const (
	varSubprocess variable = iota
	varMCPService
	varAgent
	varInstallation
	varInstance
	varHost
	numVariables
)

func (v variable) name() string {
	switch v {
	case varSubprocess:
		return Subprocess
	case varMCPService:
		return MCPService
	case varAgent:
		return Agent
	case varInstallation:
		return Installation
	case varInstance:
		return Instance
	default:
		return Host
	}
}

func lookup[T string | []byte](name T) (variable, bool) {
	switch string(name) {
	case Subprocess:
		return varSubprocess, true
	case MCPService:
		return varMCPService, true
	case Agent:
		return varAgent, true
	case Installation:
		return varInstallation, true
	case Instance:
		return varInstance, true
	case Host:
		return varHost, true
	}
	return 0, false
}
