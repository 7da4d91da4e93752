package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Settings is what the config block says, as a JSON object, before any schema;
// null without one.
func (s Service) Settings() []byte {
	text, _ := json.Marshal(s.Config) // it was made to be JSON
	return text
}

// FitConfig returns what the service's plugin, which declares a JSON Schema, is
// configured with, as a JSON object: texts, numbers and booleans are converted to
// what the schema wants. An empty schema stands for a plugin that takes no
// configuration. The error is a *FitError if the configuration does not fit, and
// another one if the schema itself cannot be used.
func (s Service) FitConfig(schema []byte) ([]byte, error) {
	if len(schema) == 0 {
		if s.Config == nil {
			return nil, nil
		}
		return nil, &FitError{[]Diagnostic{{
			Severity: SeverityError, Summary: "No configuration wanted", Range: s.Config.header,
			Detail: "The plugin declares no configuration. Remove the config block.",
		}}}
	}
	compiled, err := compileSchema(schema)
	if err != nil {
		return nil, &schemaError{err}
	}
	config := s.configOrEmpty()
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	values, err := decodeJSON(text)
	if err != nil {
		return nil, err
	}
	values = convertTo(compiled, values)
	f := fitter{config: config, absent: s.Config == nil, schema: compiled}
	if err := f.validate(values); err != nil {
		return nil, err
	}
	return json.Marshal(values)
}

// schemaError says why a plugin's schema cannot be used.
type schemaError struct{ error }

func (e *schemaError) Error() string {
	return "the schema that the plugin declares for its configuration cannot be used: " + e.error.Error()
}

func (e *schemaError) Unwrap() error { return e.error }

// CheckJSON says what is wrong with a plugin's schema, or with a JSON document
// that is to fit it.
func CheckJSON(schema, document []byte) error {
	compiled, err := compileSchema(schema)
	if err != nil {
		return &schemaError{err}
	}
	values, err := decodeJSON(document)
	if err != nil {
		return fmt.Errorf("the configuration is not JSON: %w", err)
	}
	f := fitter{config: &PluginConfig{}, schema: compiled}
	return f.validate(values)
}

// configOrEmpty is the config block, or one without settings that stands where
// the service does.
func (s Service) configOrEmpty() *PluginConfig {
	if s.Config != nil {
		return s.Config
	}
	return &PluginConfig{header: s.Range}
}

// ConfigFault is the error for what the plugin itself finds wrong with a setting.
func (s Service) ConfigFault(path []string, text string) error {
	config := s.configOrEmpty()
	if config.secrets != nil {
		text = config.secrets.replacer().Replace(text)
	}
	return &FitError{[]Diagnostic{{
		Severity: SeverityError, Summary: "Setting refused by the plugin", Range: config.place(path).value,
		Detail: fmt.Sprintf("%s: %s.", settingName(path), strings.TrimRight(text, ".")),
	}}}
}

// FitError says what of a configuration a plugin does not take.
type FitError struct {
	Diagnostics []Diagnostic
}

func (e *FitError) Error() string {
	lines := make([]string, len(e.Diagnostics))
	for i, d := range e.Diagnostics {
		lines[i] = d.Error()
	}
	return strings.Join(lines, "\n")
}

// Permanent reports that a retry would not help.
func (e *FitError) Permanent() bool { return true }

// CheckPlugins checks the configurations of the services whose plugins' schemas
// are given; an empty one is of a plugin that takes no configuration. Plugins
// that could not be asked for theirs are warned of. What was found while the
// configuration was read is in what it returns, too.
func (c *Config) CheckPlugins(schemas map[Ref][]byte, unasked map[Ref]error) *Diagnostics {
	diags := collector{list: slices.Clone(c.warnings)}
	if c.secrets != nil {
		diags.secrecy = *c.secrets
	}
	for _, s := range c.Services {
		if err := unasked[s.Ref()]; err != nil {
			diags.warnf(s.Range, "Plugin could not be asked", "service.%s: what it can be configured with is not known, and its config block was not checked: %s", s.Ref(), err)
		}
		schema, known := schemas[s.Ref()]
		if !known {
			continue
		}
		_, err := s.FitConfig(schema)
		var misfit *FitError
		switch {
		case errors.As(err, &misfit):
			diags.list = append(diags.list, misfit.Diagnostics...)
		case err != nil:
			diags.errorf(s.Range, "Configuration cannot be checked", "service.%s: %s.", s.Ref(), err)
		}
	}
	return diags.finish(slices.Sorted(maps.Keys(c.Files)), c.Files)
}
