package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// From 2026-07-28 on a server does not ask its client by requests of its own:
// its result says what it wants to know, and the client calls once more.

// addQuestions adds the tools, and the prompt, that want to know something.
func addQuestions(server *mcp.Server) {
	addTool(server, "test_missing_capability", anything, needsSampling)
	addTool(server, "test_input_required_result_elicitation", anything, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if name := answered(req.Params.InputResponses, "user_name", "name"); name != nil {
			return result(text(fmt.Sprintf("Hello, %v!", name))), nil
		}
		return ask("", mcp.InputRequestMap{"user_name": question("What is your name?", "name", "string")}), nil
	})
	addTool(server, "test_input_required_result_sampling", anything, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := sampled(req.Params.InputResponses, "capital_question"); ok {
			return result(text(answer)), nil
		}
		return ask("", mcp.InputRequestMap{"capital_question": sampling("What is the capital of France?", 100)}), nil
	})
	addTool(server, "test_input_required_result_list_roots", anything, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if roots, ok := req.Params.InputResponses["client_roots"].(*mcp.ListRootsResult); ok {
			return result(rootList(roots)), nil
		}
		return ask("", mcp.InputRequestMap{"client_roots": &mcp.ListRootsParams{}}), nil
	})
	addTool(server, "test_input_required_result_request_state", anything, confirms)
	addTool(server, "test_input_required_result_tampered_state", anything, confirms)
	addTool(server, "test_input_required_result_multiple_inputs", anything, asksForAll)
	addTool(server, "test_input_required_result_multi_round", anything, asksTwice)
	addTool(server, "test_input_required_result_capabilities", anything, asksForWhatThereIs)
	server.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "A prompt that asks back"},
		func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if about := answered(req.Params.InputResponses, "user_context", "context"); about != nil {
				return prompted(text(fmt.Sprint("Context: ", about))), nil
			}
			return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{"user_context": question("What context should the prompt use?", "context", "string")}}, nil
		})
}

// ask is a result that wants to know something; state comes back with the
// answers.
func ask(state string, requests mcp.InputRequestMap) *mcp.CallToolResult {
	return &mcp.CallToolResult{InputRequests: requests, RequestState: state}
}

func question(message, member, kind string) *mcp.ElicitParams {
	schema := fmt.Sprintf(`{"type":"object","properties":{%q:{"type":%q}},"required":[%q]}`, member, kind, member)
	return &mcp.ElicitParams{Message: message, RequestedSchema: json.RawMessage(schema)}
}

// answered returns a member of what the user accepted to say, or nil.
func answered(answers mcp.InputResponseMap, key, member string) any {
	if answer, ok := answers[key].(*mcp.ElicitResult); ok && answer.Action == "accept" {
		return answer.Content[member]
	}
	return nil
}

// sampled returns the text that a model said.
func sampled(answers mcp.InputResponseMap, key string) (string, bool) {
	answer, ok := answers[key].(*mcp.CreateMessageWithToolsResult)
	if !ok {
		return "", false
	}
	for _, content := range answer.Content {
		if said, ok := content.(*mcp.TextContent); ok {
			return said.Text, true
		}
	}
	return "", true
}

func rootList(roots *mcp.ListRootsResult) *mcp.TextContent {
	list := fmt.Sprintf("%d roots:", len(roots.Roots))
	for _, root := range roots.Roots {
		list += " " + root.URI
	}
	return text(list)
}

func needsSampling(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	if can := req.ClientCapabilities(); can != nil && can.Sampling != nil {
		return result(text("the client can sample")), nil
	}
	data, err := json.Marshal(mcp.MissingRequiredClientCapabilityData{
		RequiredCapabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}},
	})
	if err != nil {
		return nil, err
	}
	return nil, &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the client has to sample for this", Data: data}
}

func confirms(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	const state = "to-confirm"
	switch req.Params.RequestState {
	case "":
	case state:
		if answered(req.Params.InputResponses, "confirm", "ok") != nil {
			return result(text("state-ok")), nil
		}
	default:
		return nil, invalid("the state is not what it was")
	}
	return ask(state, mcp.InputRequestMap{"confirm": question("Please confirm", "ok", "boolean")}), nil
}

func asksForAll(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	answers := req.Params.InputResponses
	name := answered(answers, "user_name", "name")
	greeting, greeted := sampled(answers, "greeting")
	roots, rooted := answers["client_roots"].(*mcp.ListRootsResult)
	if name != nil && greeted && rooted {
		return result(text(fmt.Sprintf("%s, %v", greeting, name)), rootList(roots)), nil
	}
	return ask("all", mcp.InputRequestMap{
		"user_name":    question("What is your name?", "name", "string"),
		"greeting":     sampling("Generate a greeting", 50),
		"client_roots": &mcp.ListRootsParams{},
	}), nil
}

func asksTwice(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	const first, second = "first", "second"
	answers := req.Params.InputResponses
	switch {
	case req.Params.RequestState == first && answered(answers, "step1", "name") != nil:
		return ask(second, mcp.InputRequestMap{"step2": question("Step 2: What is your favorite color?", "color", "string")}), nil
	case req.Params.RequestState == second && answered(answers, "step2", "color") != nil:
		return result(text(fmt.Sprint("The color is ", answered(answers, "step2", "color")))), nil
	default:
		return ask(first, mcp.InputRequestMap{"step1": question("Step 1: What is your name?", "name", "string")}), nil
	}
}

func asksForWhatThereIs(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	can := req.ClientCapabilities()
	if len(req.Params.InputResponses) > 0 || can == nil {
		return result(text("that is all")), nil
	}
	requests := mcp.InputRequestMap{}
	if can.Elicitation != nil {
		requests["user_name"] = question("What is your name?", "name", "string")
	}
	if can.Sampling != nil {
		requests["greeting"] = sampling("Generate a greeting", 50)
	}
	if can.RootsV2 != nil {
		requests["client_roots"] = &mcp.ListRootsParams{}
	}
	if len(requests) == 0 {
		return result(text("the client can do nothing of it")), nil
	}
	return ask("", requests), nil
}
