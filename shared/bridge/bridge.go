// Package bridge is what the host tells the bridges, the plugins that host MCP
// servers which are no plugins, and remote agents.
package bridge

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/plughost/plughost/shared"
)

// The names of the bridges' executables, which lie beside the host's.
const (
	// Name is that of the one for MCP servers.
	Name = "mcp-bridge"
	// AgentName is that of the one for agents.
	AgentName = "agent-bridge"
)

// File is the name of the file in the instance's directory by which the host
// says what is to be served. It has mode 0600, and it is no argument and no
// variable, since other users can see those: the headers may be secret.
const File = "bridge.json"

// Target is the MCP server that is served, either a command or a URL, or the
// agent, which is a URL.
type Target struct {
	// Path is the program, absolute, and Args its arguments with the name that
	// it is called by first. It speaks MCP on standard input and output.
	Path string   `json:"path,omitempty"`
	Args []string `json:"args,omitempty"`
	// Isolated gives each MCP session a process of its own, and not all of them
	// the same one.
	Isolated bool `json:"isolated,omitempty"`
	// Sessionless has the one process be used without any session: each request
	// stands alone. A server that cannot is used with one.
	Sessionless bool `json:"sessionless,omitempty"`

	// URL is of a server that speaks Streamable HTTP, or of an agent.
	URL string `json:"url,omitempty"`
	// Headers go with every request to URL.
	Headers map[string]string `json:"headers,omitempty"`
}

// Encode returns the content of the file.
func (t Target) Encode() ([]byte, error) { return json.Marshal(t) }

// Take reads the file, and removes it: nobody needs what is secret in it any
// more.
func Take() (Target, error) {
	path := filepath.Join(os.Getenv(shared.EnvInstanceDir), File)
	content, err := os.ReadFile(path)
	if err != nil {
		return Target{}, fmt.Errorf("cannot read what to serve: %w", err)
	}
	var t Target
	if err := json.Unmarshal(content, &t); err != nil {
		return Target{}, fmt.Errorf("cannot read what to serve: %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return Target{}, err
	}
	return t, nil
}
