// Command agent-example is a plughost plugin: an A2A agent that answers
// questions about time by calling MCP tools through the host. It is meant to
// be read and copied.
//
// main.go serves, card.go says what the agent can do, planner.go understands
// questions without calling anything, executor.go does what was planned, and
// answer.go puts the tools' results in words.
package main

import "github.com/plughost/plughost/shared/agentplugin"

func main() {
	agentplugin.Serve(card(), newAssistant(agentplugin.Tools))
}
