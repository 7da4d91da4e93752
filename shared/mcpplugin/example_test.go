package mcpplugin_test

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/mcpplugin"
)

// The whole of a plugin: an MCP server of the official SDK, and one line.
func Example() {
	server := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "1.0.0"}, nil)
	// mcp.AddTool(server, ...)
	mcpplugin.Serve(server)
}

// What the struct holds are the defaults; it is filled in before the first
// request comes.
func ExampleWithConfig() {
	settings := &struct {
		City string `json:"city"`
		Unit string `json:"unit" plughost:"enum=celsius|fahrenheit"`
	}{Unit: "celsius"}
	server := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "1.0.0"}, nil)
	mcpplugin.Serve(server, mcpplugin.WithConfig(settings))
}

// The text of the error is shown to the operator.
func ExampleWithHealth() {
	reachable := func(context.Context) error { return errors.New("the weather station does not answer") }
	server := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "1.0.0"}, nil)
	mcpplugin.Serve(server, mcpplugin.WithHealth(reachable))
}
