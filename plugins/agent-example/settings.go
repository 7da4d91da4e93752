package main

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/plughost/plughost/shared/pluginconfig"
)

// settings is what the config block of the service can say.
type settings struct {
	Model *modelSettings `json:"model,omitempty" jsonschema:"the model that answers; without one the agent answers questions about time by itself"`
}

// modelSettings say which model to ask, by the chat-completions API that most
// servers of models have, and how much of it an answer may take.
type modelSettings struct {
	BaseURL   string                `json:"base_url" jsonschema:"where the API is, such as https://api.openai.com/v1"`
	Name      string                `json:"name" jsonschema:"what the API calls the model"`
	APIKey    string                `json:"api_key,omitempty" plughost:"sensitive" jsonschema:"the key that the API wants, if it wants one"`
	System    string                `json:"system,omitempty" jsonschema:"what the model is told before each conversation"`
	MaxRounds int                   `json:"max_rounds,omitempty" plughost:"minimum=1,maximum=100" jsonschema:"how many times the model is asked for one answer, since it is asked again after each round of tool calls; default 10"`
	MaxTokens int                   `json:"max_tokens,omitempty" plughost:"minimum=1" jsonschema:"how many tokens the model may write for one answer; default 8192"`
	Timeout   pluginconfig.Duration `json:"timeout,omitempty" jsonschema:"how long one answer may take; default 2m"`
}

// The defaults of a model.
const (
	defaultSystem    = "You are a helpful assistant. Use your tools where they help, and answer briefly."
	defaultMaxRounds = 10
	defaultMaxTokens = 8192
	defaultTimeout   = 2 * time.Minute
)

// Validate is called when the settings are filled in. It fills in the defaults
// of the model, of which there are none without one.
func (s *settings) Validate() error {
	m := s.Model
	if m == nil {
		return nil
	}
	if m.System == "" {
		m.System = defaultSystem
	}
	if m.MaxRounds == 0 {
		m.MaxRounds = defaultMaxRounds
	}
	if m.MaxTokens == 0 {
		m.MaxTokens = defaultMaxTokens
	}
	if m.Timeout == 0 {
		m.Timeout = pluginconfig.Duration(defaultTimeout)
	}
	return errors.Join(m.checkURL(), m.check("name", m.Name != "", "it is empty"),
		m.check("timeout", m.Timeout > 0, "it is negative"))
}

func (m *modelSettings) checkURL() error {
	u, err := url.Parse(m.BaseURL)
	ok := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	return m.check("base_url", ok, "it is not the URL of an HTTP API, such as https://api.openai.com/v1")
}

func (m *modelSettings) check(field string, ok bool, fault string) error {
	if ok {
		return nil
	}
	return &pluginconfig.FieldError{Path: []string{"model", field}, Err: fmt.Errorf("%s", fault)}
}
