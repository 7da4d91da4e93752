package main

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// zonesURI is the resource that lists the time zones.
const zonesURI = "clock://zones"

const instructions = "Tells the time in any time zone, converts times between zones and counts the days between dates. " +
	"Zones are IANA names such as Europe/Berlin; the resource " + zonesURI + " lists them."

// newServer returns the MCP server. What the time is, it asks the clock, so
// that a test can say. Settings count when a tool is called.
func newServer(c clock, s *settings) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{
		Name:    "clock",
		Title:   "Clock",
		Version: "1.0.0",
	}, &mcp.ServerOptions{
		Instructions: instructions,
		// Without it the SDK announces log messages, of which there are none.
		Capabilities: &mcp.ServerCapabilities{},
	})
	addTools(server, c, s)
	addZones(server)
	addMeeting(server, c)
	return server
}

func addTools(server *mcp.Server, c clock, s *settings) {
	mcp.AddTool(server, &mcp.Tool{
		Name:        "now",
		Description: "The current date and time in a time zone.",
		Annotations: readOnly("Current time"),
	}, tool(s.now(c)))
	mcp.AddTool(server, &mcp.Tool{
		Name: "convert",
		Description: "What a time in one time zone is in another. " +
			"Says so when clocks are set forward or back at that time, so that it does not exist or comes twice.",
		Annotations: readOnly("Convert a time"),
	}, tool(c.convert))
	mcp.AddTool(server, &mcp.Tool{
		Name:        "days_between",
		Description: "The number of days from one date to another, negative if the second is the earlier one.",
		Annotations: readOnly("Days between dates"),
	}, tool(c.daysBetween))
}

// tool makes a tool's handler of a plain function. The SDK infers the schemas
// of arguments and result from its types, checks arguments against them, and
// turns the function's error into a tool error, which the model gets to read.
func tool[In, Out any](do func(In) (Out, error)) mcp.ToolHandlerFor[In, Out] {
	return func(_ context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := do(in)
		return nil, out, err
	}
}

// readOnly tells clients that a tool may be called without asking the user.
func readOnly(title string) *mcp.ToolAnnotations {
	closed := false
	return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, OpenWorldHint: &closed}
}

func addZones(server *mcp.Server) {
	text := strings.Join(zoneNames, "\n") + "\n"
	server.AddResource(&mcp.Resource{
		URI:         zonesURI,
		Name:        "zones",
		Title:       "Time zones",
		Description: "The names of the time zones, one a line.",
		MIMEType:    "text/plain",
		Size:        int64(len(text)),
	}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
			{URI: zonesURI, MIMEType: "text/plain", Text: text},
		}}, nil
	})
}

func addMeeting(server *mcp.Server, c clock) {
	server.AddPrompt(&mcp.Prompt{
		Name:        "meeting",
		Title:       "Find a meeting time",
		Description: "Finds a time for a meeting of people in different time zones.",
		Arguments: []*mcp.PromptArgument{
			{Name: "zones", Required: true, Description: "The people's time zones, separated by commas: Europe/Berlin, Asia/Tokyo."},
			{Name: "date", Description: "The day of the meeting, YYYY-MM-DD. Default: tomorrow (UTC)."},
			{Name: "hours", Description: "When people work, in their own time. Default: 09:00-17:00."},
			{Name: "duration", Description: "How long the meeting is: 45m, 1h30m. Default: 1h."},
		},
	}, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		args := req.Params.Arguments
		text, err := c.meeting(meetingInput{
			zones:    args["zones"],
			date:     args["date"],
			hours:    args["hours"],
			duration: args["duration"],
		})
		if err != nil {
			// Unlike a tool, a prompt has no result that can hold an error.
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
		}
		return &mcp.GetPromptResult{
			Description: "Find a meeting time",
			Messages:    []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}},
		}, nil
	})
}
