package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/logs"
)

// What can come of a question, as MCP names it.
const (
	answerAccept  = "accept"
	answerDecline = "decline"
	answerCancel  = "cancel"
)

// person is who made a call, and answers on a terminal what the tool asks for in
// its course.
type person struct {
	in       *bufio.Reader // nil if there is no terminal
	out      io.Writer
	progress *progressLine
	turn     chan struct{} // holds one while a question is being answered
}

func newPerson(in io.Reader, out io.Writer, progress *progressLine) *person {
	p := &person{out: out, progress: progress, turn: make(chan struct{}, 1)}
	if file, ok := in.(*os.File); ok && isTerminal(file) && isTerminal(out) {
		p.in = bufio.NewReader(in)
	}
	return p
}

// What is asked at the end of a question.
const (
	askToSend  = "Send this to the tool?"
	askToOpen  = "Will you open this address in a browser? Look first whose it is."
	askToRetry = "Open this address in a browser, once you know whose it is. When you are done there: make the call again?"
)

// elicit is for mcp.ClientOptions.
func (p *person) elicit(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	if req.Params.Mode == "url" {
		return p.question(ctx, req.Params, askToOpen)
	}
	return p.question(ctx, req.Params, askToSend)
}

// visit has the person do elsewhere what a tool wants before it can be called,
// which err says. It reports whether the call is to be made again.
func (p *person) visit(ctx context.Context, err error) bool {
	var refused *jsonrpc.Error
	if !errors.As(err, &refused) || refused.Code != mcp.CodeURLElicitationRequired {
		return false
	}
	var wants struct {
		Elicitations []*mcp.ElicitParams `json:"elicitations"`
	}
	if json.Unmarshal(refused.Data, &wants) != nil || len(wants.Elicitations) == 0 {
		return false
	}
	for _, params := range wants.Elicitations {
		params.Mode = "url"
		answer, err := p.question(ctx, params, askToRetry)
		if err != nil || answer.Action != answerAccept {
			return false
		}
	}
	return true
}

// question has a question answered, one after the other.
func (p *person) question(ctx context.Context, params *mcp.ElicitParams, last string) (*mcp.ElicitResult, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if p.in == nil {
		defer func() { <-p.turn }()
		fmt.Fprintf(p.out, "plughost: the tool asks for what only a person on a terminal can answer, and was declined: %s\n", oneLine(strings.TrimSpace(params.Message+" "+params.URL)))
		return &mcp.ElicitResult{Action: answerDecline}, nil
	}
	p.progress.pause()
	result := make(chan *mcp.ElicitResult, 1)
	go func() {
		// Nothing ends the reading of a terminal but the end of the process.
		defer func() { <-p.turn }()
		result <- p.answer(params, last)
	}()
	select {
	case r := <-result:
		p.progress.resume()
		return r, nil
	case <-ctx.Done():
		fmt.Fprintln(p.out)
		return nil, context.Cause(ctx)
	}
}

// answer has the person answer. At the end of the input the question is
// cancelled.
func (p *person) answer(params *mcp.ElicitParams, last string) *mcp.ElicitResult {
	fmt.Fprint(p.out, "The tool asks: ", printableLines(params.Message))
	result := &mcp.ElicitResult{Action: answerCancel}
	var err error
	if params.Mode == "url" {
		fmt.Fprintf(p.out, "  %s\n", logs.Printable(params.URL))
	} else if result.Content, err = p.fill(params.RequestedSchema); err != nil {
		return p.dismissed()
	}
	if result.Action, err = p.decide(last); err != nil {
		return p.dismissed()
	}
	if result.Action != answerAccept {
		result.Content = nil
	}
	return result
}

func (p *person) dismissed() *mcp.ElicitResult {
	fmt.Fprintln(p.out)
	return &mcp.ElicitResult{Action: answerCancel}
}

// decide asks for what is to be done.
func (p *person) decide(question string) (action string, err error) {
	actions := map[string]string{
		"y": answerAccept, "yes": answerAccept, "n": answerDecline, "no": answerDecline, "c": answerCancel, "cancel": answerCancel,
	}
	for action == "" {
		text, err := p.ask(question + " [y]es, [n]o, [c]ancel: ")
		if err != nil {
			return "", err
		}
		action = actions[strings.ToLower(text)]
	}
	return action, nil
}

func (p *person) ask(prompt string) (string, error) {
	fmt.Fprint(p.out, prompt)
	text, err := p.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(text), nil
}

// fill has a form filled in.
func (p *person) fill(requested any) (map[string]any, error) {
	content := make(map[string]any)
	encoded, err := json.Marshal(requested)
	if err != nil {
		return nil, err
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(encoded, &schema); err != nil || schema.Properties == nil {
		return content, err
	}
	for _, f := range fieldsOf(&schema) {
		value, err := p.field(f)
		if err != nil {
			return nil, err
		}
		if value != nil {
			content[f.name] = value
		}
	}
	return content, nil
}

// field asks for one value until it is a good one. It returns nil for none.
func (p *person) field(f field) (any, error) {
	for {
		text, err := p.ask("  " + f.prompt())
		if err != nil {
			return nil, err
		}
		value, err := f.read(text)
		if err == nil {
			return value, nil
		}
		fmt.Fprintf(p.out, "  %s\n", oneLine(err.Error()))
	}
}

// field is one of a form.
type field struct {
	*jsonschema.Schema
	name     string
	required bool
}

// fieldsOf are those of a form: what is required first, as it is listed.
func fieldsOf(schema *jsonschema.Schema) (fields []field) {
	rank := func(name string) int {
		if at := slices.Index(schema.Required, name); at >= 0 {
			return at
		}
		return len(schema.Required)
	}
	names := slices.SortedFunc(maps.Keys(schema.Properties), func(a, b string) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
	})
	for _, name := range names {
		fields = append(fields, field{schema.Properties[name], name, slices.Contains(schema.Required, name)})
	}
	return fields
}

// prompt says what is wanted.
func (f field) prompt() string {
	about := []string{f.kind()}
	if f.Description != "" {
		about = append([]string{f.Description}, about...)
	}
	if f.required && f.Default == nil {
		about = append(about, "required")
	}
	text := fmt.Sprintf("%s (%s)", cmp.Or(f.Title, f.name), strings.Join(about, "; "))
	if f.Default != nil {
		text += fmt.Sprintf(" [%s]", strings.Trim(string(f.Default), `"`))
	}
	return oneLine(text) + ": "
}

// kind says what values there can be.
func (f field) kind() string {
	var titles []string
	for _, c := range f.choices() {
		titles = append(titles, c.title)
	}
	switch list := strings.Join(titles, ", "); {
	case f.Type == "array":
		return "any of " + list + ", with commas between"
	case list != "":
		return "one of " + list
	case f.Type == "boolean":
		return "yes or no"
	case f.Type == "string":
		return cmp.Or(f.Format, "text")
	default:
		return f.Type + f.limits()
	}
}

func (f field) limits() (text string) {
	if f.Minimum != nil {
		text += fmt.Sprintf(" from %g", *f.Minimum)
	}
	if f.Maximum != nil {
		text += fmt.Sprintf(" to %g", *f.Maximum)
	}
	return text
}

// choice is a value that can be chosen, by itself or by its title.
type choice struct{ value, title string }

// choices are those of a field, or of the elements of one that has several.
func (f field) choices() (choices []choice) {
	schema := f.Schema
	if f.Items != nil {
		schema = f.Items
	}
	titles, _ := schema.Extra["enumNames"].([]any)
	for i, value := range schema.Enum {
		c := choice{fmt.Sprint(value), fmt.Sprint(value)}
		if i < len(titles) {
			c.title = fmt.Sprint(titles[i])
		}
		choices = append(choices, c)
	}
	for _, entry := range slices.Concat(schema.OneOf, schema.AnyOf) {
		if entry.Const != nil {
			choices = append(choices, choice{fmt.Sprint(*entry.Const), cmp.Or(entry.Title, fmt.Sprint(*entry.Const))})
		}
	}
	return choices
}

// read reads a value that was typed, nil for none.
func (f field) read(text string) (value any, err error) {
	switch {
	case text == "" && f.Default != nil:
		err = json.Unmarshal(f.Default, &value)
		return value, err
	case text == "" && f.required:
		return nil, errors.New("it is required; Ctrl-D cancels")
	case text == "":
		return nil, nil
	}
	if value, err = f.parse(text); err != nil {
		return nil, err
	}
	resolved, err := f.CloneSchemas().Resolve(nil)
	if err != nil {
		return value, nil // the tool says itself what it does not like
	}
	if err := resolved.Validate(value); err != nil {
		return nil, fmt.Errorf("it cannot be that: %s", strings.TrimPrefix(err.Error(), "validating root: "))
	}
	return value, nil
}

func (f field) parse(text string) (any, error) {
	switch f.Type {
	case "boolean":
		return parseBool(text)
	case "number", "integer":
		var number float64
		if err := json.Unmarshal([]byte(text), &number); err != nil {
			return nil, fmt.Errorf("%q is not a number", text)
		}
		return number, nil
	case "array":
		elements := []any{}
		for element := range strings.SplitSeq(text, ",") {
			elements = append(elements, f.chosen(strings.TrimSpace(element)))
		}
		return elements, nil
	default:
		return f.chosen(text), nil
	}
}

func parseBool(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "y", "yes", "true":
		return true, nil
	case "n", "no", "false":
		return false, nil
	default:
		return false, fmt.Errorf("%q is neither yes nor no", text)
	}
}

// chosen is the value that goes by a title, or the text itself.
func (f field) chosen(text string) string {
	for _, c := range f.choices() {
		if strings.EqualFold(c.title, text) {
			return c.value
		}
	}
	return text
}
