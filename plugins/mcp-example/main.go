// Command mcp-example is a plughost plugin: an MCP server that knows the time
// in every time zone. It is meant to be read and copied.
//
// main.go serves, server.go says what clients see, settings.go what can be
// configured, and the other files do the
// work without knowing of MCP.
package main

import (
	"time"

	"github.com/plughost/plughost/shared/mcpplugin"
)

func main() {
	settings := defaultSettings()
	mcpplugin.Serve(newServer(time.Now, settings), mcpplugin.WithConfig(settings))
}
