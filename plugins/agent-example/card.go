package main

import (
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// card describes the agent to clients. Its interfaces are left to the host,
// which knows where the agent is reached.
func card() *a2a.AgentCard {
	return &a2a.AgentCard{
		Name:               "assistant",
		Description:        "Answers questions about time: what time it is elsewhere, what a time is elsewhere, how far dates are apart. With a model it answers others too.",
		Version:            "1.0.0",
		Capabilities:       a2a.AgentCapabilities{Streaming: true},
		DefaultInputModes:  []string{"text/plain"},
		DefaultOutputModes: []string{"text/plain"},
		Skills:             skills(),
	}
}

func skills() []a2a.AgentSkill {
	return []a2a.AgentSkill{
		{
			ID:          "current-time",
			Name:        "Current time",
			Description: "Tells what time it is in a city or time zone.",
			Tags:        []string{"time", "time zone"},
			Examples:    []string{"What time is it in Tokyo?", "Time in Europe/Berlin"},
		},
		{
			ID:          "convert-time",
			Name:        "Convert a time",
			Description: "Tells what a time in one place is in another.",
			Tags:        []string{"time", "time zone", "conversion"},
			Examples:    []string{"Convert 09:30 from New York to London", "What is 15:00 in Berlin in Tokyo time?"},
		},
		{
			ID:          "count-days",
			Name:        "Count days",
			Description: "Counts the days between two dates, or between a date and today.",
			Tags:        []string{"date", "days"},
			Examples:    []string{"How many days between 2026-01-01 and 2026-03-01?", "Days until 2026-12-24"},
		},
	}
}

// help is the answer to what the agent does not understand.
func help() string {
	var text strings.Builder
	text.WriteString("I did not understand that. I answer questions about time, such as:")
	for _, skill := range skills() {
		for _, example := range skill.Examples {
			text.WriteString("\n- " + example)
		}
	}
	return text.String()
}
