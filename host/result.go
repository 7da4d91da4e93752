package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/logs"
)

// writeResult writes a tool's result for a person.
func writeResult(w io.Writer, result *mcp.CallToolResult) error {
	var b strings.Builder
	if !repeats(result) {
		for _, content := range result.Content {
			b.WriteString(contentText(content))
		}
	}
	if result.StructuredContent != nil {
		if err := writeStructured(&b, result.StructuredContent); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// repeats reports whether the content of a result is only its structured content
// once more, as text for who does not know the latter.
func repeats(result *mcp.CallToolResult) bool {
	if result.StructuredContent == nil || len(result.Content) != 1 {
		return false
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	var value any
	return ok && json.Unmarshal([]byte(text.Text), &value) == nil && reflect.DeepEqual(value, result.StructuredContent)
}

func writeStructured(w io.Writer, value any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(w, printableLines(b.String()))
	return err
}

// contentText is a part of a result in lines.
func contentText(content mcp.Content) string {
	switch c := content.(type) {
	case *mcp.TextContent:
		return printableLines(c.Text)
	case *mcp.ImageContent:
		return noted("image", c.MIMEType, len(c.Data))
	case *mcp.AudioContent:
		return noted("audio", c.MIMEType, len(c.Data))
	case *mcp.ResourceLink:
		return fmt.Sprintf("(resource %s: %s)\n", logs.Printable(c.Name), logs.Printable(c.URI))
	case *mcp.EmbeddedResource:
		if c.Resource == nil {
			return ""
		}
		if c.Resource.Blob != nil {
			return noted("resource "+c.Resource.URI, c.Resource.MIMEType, len(c.Resource.Blob))
		}
		return printableLines(c.Resource.Text)
	default:
		return fmt.Sprintf("(%T: --json has it)\n", content)
	}
}

func noted(what, mimeType string, size int) string {
	return fmt.Sprintf("(%s, %s, %d bytes: --json has it)\n", logs.Printable(what), logs.Printable(mimeType), size)
}

// printableLines is text whose lines cannot steer a terminal.
func printableLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(logs.Printable(strings.TrimRight(line, "\r\n")))
		b.WriteByte('\n')
	}
	return b.String()
}

// progressLine shows on a terminal how far a call is, in one line that is
// written over.
type progressLine struct {
	w io.Writer // nil if it is none

	mu     sync.Mutex
	shown  bool
	paused bool
}

func newProgressLine(w io.Writer) *progressLine {
	if !isTerminal(w) {
		return &progressLine{}
	}
	return &progressLine{w: w}
}

const clearLine = "\r\x1b[K"

func (p *progressLine) show(params *mcp.ProgressNotificationParams) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused {
		return
	}
	p.shown = true
	of := ""
	if params.Total > 0 {
		of = fmt.Sprintf("/%g", params.Total)
	}
	fmt.Fprintf(p.w, "%s%g%s %s", clearLine, params.Progress, of, logs.Printable(params.Message))
}

func (p *progressLine) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}

// pause leaves the terminal to something else, until resume.
func (p *progressLine) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	p.paused = true
}

func (p *progressLine) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = false
}

func (p *progressLine) wipe() {
	if p.shown {
		fmt.Fprint(p.w, clearLine)
		p.shown = false
	}
}
