package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What the assistant reads of the tools' structured results.
type (
	momentResult struct {
		Time time.Time `json:"time"`
	}
	convertResult struct {
		From momentResult `json:"from"`
		To   momentResult `json:"to"`
		Note string       `json:"note"`
	}
	daysResult struct {
		Summary string `json:"summary"`
	}
)

const (
	timeLayout = "15:04"
	dateLayout = "Monday, 2 January 2006"
)

// answer puts the result of a call in words. A result that is not of the
// expected shape is given as the tool worded it.
func (c *call) answer(result *mcp.CallToolResult) string {
	var text string
	switch c.tool {
	case toolNow:
		text = c.answerNow(result)
	case toolConvert:
		text = c.answerConvert(result)
	case toolDays:
		text = answerDays(result)
	}
	if text == "" {
		text = textOf(result)
	}
	if text == "" {
		text = "The tool gave no answer."
	}
	return text
}

func (c *call) answerNow(result *mcp.CallToolResult) string {
	var now momentResult
	if !decode(result, &now) || now.Time.IsZero() {
		return ""
	}
	return fmt.Sprintf("It is %s in %s on %s (UTC%s).",
		now.Time.Format(timeLayout), c.from, now.Time.Format(dateLayout), now.Time.Format("-07:00"))
}

func (c *call) answerConvert(result *mcp.CallToolResult) string {
	var converted convertResult
	if !decode(result, &converted) || converted.From.Time.IsZero() || converted.To.Time.IsZero() {
		return ""
	}
	from, to := converted.From.Time, converted.To.Time
	text := fmt.Sprintf("%s in %s on %s is %s in %s",
		from.Format(timeLayout), c.from, from.Format(dateLayout), to.Format(timeLayout), c.to)
	if from.Format(dateLayout) != to.Format(dateLayout) {
		text += " on " + to.Format(dateLayout)
	}
	text += "."
	if converted.Note != "" {
		text += " " + converted.Note
	}
	return text
}

func answerDays(result *mcp.CallToolResult) string {
	var days daysResult
	if !decode(result, &days) || days.Summary == "" {
		return ""
	}
	return days.Summary + "."
}

// decode reads the structured part of a result, which the SDK leaves as the
// plain maps and slices of JSON.
func decode(result *mcp.CallToolResult, into any) bool {
	if result.StructuredContent == nil {
		return false
	}
	data, err := json.Marshal(result.StructuredContent)
	return err == nil && json.Unmarshal(data, into) == nil
}

func textOf(result *mcp.CallToolResult) string {
	var texts []string
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}
