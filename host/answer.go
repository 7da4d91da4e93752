package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/plughost/plughost/host/internal/logs"
)

// printer prints an agent's answer, event by event.
type printer interface {
	print(event a2a.Event) error
	end() error
}

// jsonPrinter prints events as the JSON of A2A, one a line.
type jsonPrinter struct{ out io.Writer }

func (p *jsonPrinter) print(event a2a.Event) error {
	return json.NewEncoder(p.out).Encode(a2a.StreamResponse{Event: event})
}

func (p *jsonPrinter) end() error { return nil }

// textPrinter prints the answer for people, and what the agent says of its
// work beside it.
type textPrinter struct {
	out, notes io.Writer
	artifact   a2a.ArtifactID // that was printed last
	open       bool           // the last line is not ended
}

func (p *textPrinter) print(event a2a.Event) error {
	switch event := event.(type) {
	case *a2a.Message:
		return p.write(textOf(event))
	case *a2a.TaskArtifactUpdateEvent:
		return p.piece(event)
	case *a2a.Task:
		return p.task(event)
	case *a2a.TaskStatusUpdateEvent:
		return p.status(event.Status)
	}
	return nil
}

// task prints what a task already has.
func (p *textPrinter) task(task *a2a.Task) error {
	for _, artifact := range task.Artifacts {
		if err := p.piece(&a2a.TaskArtifactUpdateEvent{Artifact: artifact}); err != nil {
			return err
		}
	}
	return p.status(task.Status)
}

// piece prints a piece of the answer; another artifact begins on a new line.
func (p *textPrinter) piece(event *a2a.TaskArtifactUpdateEvent) error {
	if event.Artifact.ID != p.artifact || !event.Append {
		if err := p.end(); err != nil {
			return err
		}
	}
	p.artifact = event.Artifact.ID
	return p.write(partsText(event.Artifact.Parts))
}

// status prints what the agent says with a state. The reason of a failure is
// the command's error.
func (p *textPrinter) status(status a2a.TaskStatus) error {
	text := textOf(status.Message)
	switch {
	case text == "" || status.State == a2a.TaskStateFailed || status.State == a2a.TaskStateRejected:
		return nil
	case status.State == a2a.TaskStateWorking || status.State == a2a.TaskStateSubmitted:
		if err := p.end(); err != nil {
			return err
		}
		_, err := fmt.Fprintln(p.notes, printable(text))
		return err
	default:
		if err := p.end(); err != nil {
			return err
		}
		return p.write(text)
	}
}

func (p *textPrinter) write(text string) error {
	if text == "" {
		return nil
	}
	p.open = !strings.HasSuffix(text, "\n")
	_, err := io.WriteString(p.out, printable(text))
	return err
}

// end ends the last line.
func (p *textPrinter) end() error {
	if !p.open {
		return nil
	}
	p.open = false
	_, err := fmt.Fprintln(p.out)
	return err
}

// printable is a text without what would steer a terminal.
func printable(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = logs.Printable(line)
	}
	return strings.Join(lines, "\n")
}

// textOf is the text of a message, which may be nil.
func textOf(message *a2a.Message) string {
	if message == nil {
		return ""
	}
	return partsText(message.Parts)
}

// partsText is the text in parts; of others it says what they are.
func partsText(parts a2a.ContentParts) string {
	var b strings.Builder
	for _, part := range parts {
		switch content := part.Content.(type) {
		case a2a.Text:
			b.WriteString(string(content))
		case a2a.Data:
			if encoded, err := json.Marshal(content.Value); err == nil {
				b.Write(encoded)
			}
		case a2a.URL:
			b.WriteString(string(content))
		case a2a.Raw:
			fmt.Fprintf(&b, "[%d bytes%s]", len(content), inParentheses(part.Filename))
		}
	}
	return b.String()
}
