package config

// Access is what the bearer of a token may reach of the gateway. In its
// patterns * stands for any text, as in those of Tools.
type Access struct {
	// Services are patterns of the MCP services that it may reach. If it is nil
	// these are those of which Tools allows something.
	Services []string

	// Agents are patterns of the agents that it may reach. Default "*".
	Agents []string

	// Tools are what it may call, each as SERVICE/TOOL. Default "*/*".
	Tools Tools

	// Metrics says whether it may read the metrics.
	Metrics bool
}

// Service reports whether an MCP service can be reached.
func (a Access) Service(name string) bool {
	if a.Services != nil {
		return anyMatch(a.Services, name)
	}
	return a.Tools.Reach(name)
}

// Agent reports whether an agent can be reached.
func (a Access) Agent(name string) bool { return anyMatch(a.Agents, name) }

// Tool reports whether a tool of an MCP service can be seen and called.
func (a Access) Tool(service, tool string) bool {
	return a.Service(service) && a.Tools.Grants(service, tool)
}
