// Package pluginconfig is the configuration that a plugin declares: a Go struct
// whose JSON Schema the host is told, and that the config block of the service
// fills in.
//
//	type settings struct {
//		Zone  string        `json:"zone" jsonschema:"where the clock is"`
//		Model *modelOptions `json:"model,omitempty"`
//	}
//
//	type modelOptions struct {
//		URL string `json:"base_url"`
//		Key string `json:"api_key" plughost:"sensitive"`
//	}
//
// Names are those of the json tags. What the struct holds when it is declared
// are the defaults; a field without a default must be configured, unless its tag
// says omitempty or omitzero. The tag jsonschema describes a field. The tag
// plughost has, separated by commas:
//
//	sensitive     a secret
//	enum=a|b      one of these texts
//	minimum=1     the least number
//	maximum=9     the greatest number
//
// A struct with a method Validate() error has it called once it is filled in.
package pluginconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// Config is a declared configuration.
type Config struct {
	target any
	schema []byte
}

// Validator is a configuration that checks itself. An error that is a
// *FieldError, or joins some, says where the fault is.
type Validator interface {
	Validate() error
}

// FieldError is a fault of one field.
type FieldError struct {
	// Path leads to the field by the names of the json tags, from the outside
	// in, with the indexes of lists.
	Path []string
	// Err says what is wrong, without the value if that may be a secret.
	Err error
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %v", pathText(e.Path), e.Err)
}

func (e *FieldError) Unwrap() error { return e.Err }

// New declares target, a pointer to a struct, as the configuration; nil declares
// none, and the Config is nil then. The error says what cannot be configured.
func New(target any) (*Config, error) {
	if target == nil {
		return nil, nil
	}
	value := reflect.ValueOf(target)
	if value.Kind() != reflect.Pointer || value.IsNil() || value.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("a configuration is declared by a pointer to a struct, not by a %T", target)
	}
	schema, err := schemaOf(value.Elem())
	if err != nil {
		return nil, fmt.Errorf("cannot derive the schema of the configuration %T: %w", target, err)
	}
	return &Config{target: target, schema: schema}, nil
}

// Schema is the JSON Schema of the configuration.
func (c *Config) Schema() []byte { return c.schema }

// Set fills in the struct from a JSON object, and returns what is wrong with
// it. Fields that it does not have keep what they are.
func (c *Config) Set(config []byte) []*FieldError {
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(c.target)
	if err == nil {
		if _, err = decoder.Token(); errors.Is(err, io.EOF) {
			return c.validate()
		}
		err = errors.New("there is more than one JSON object")
	}
	return []*FieldError{misfit(err)}
}

// misfit says what of a JSON document does not fit, without quoting it: it may
// be a secret.
func misfit(err error) *FieldError {
	var mistyped *json.UnmarshalTypeError
	if errors.As(err, &mistyped) {
		return &FieldError{
			Path: splitPath(mistyped.Field),
			Err:  fmt.Errorf("%s is wanted, not a JSON %s", wanted(mistyped.Type), kindOf(mistyped.Value)),
		}
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return &FieldError{Err: fmt.Errorf("it is not JSON: there is a fault at byte %d", syntax.Offset)}
	}
	return &FieldError{Err: err}
}

func (c *Config) validate() []*FieldError {
	validator, ok := c.target.(Validator)
	if !ok {
		return nil
	}
	return faults(validator.Validate())
}

// faults takes joined errors apart.
func faults(err error) []*FieldError {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*FieldError
		for _, one := range joined.Unwrap() {
			all = append(all, faults(one)...)
		}
		return all
	}
	var field *FieldError
	if errors.As(err, &field) {
		return []*FieldError{field}
	}
	return []*FieldError{{Err: err}}
}
