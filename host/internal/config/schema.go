package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// Type says what an argument takes.
type Type string

// The types of arguments.
const (
	TypeString     Type = "string"
	TypeBool       Type = "bool"
	TypeNumber     Type = "number"
	TypeDuration   Type = "duration" // a string with a unit of time, such as "10s"
	TypeSize       Type = "size"     // a string with a unit of bytes, such as "512MiB"
	TypePath       Type = "path"     // relative to the file that it stands in
	TypeStrings    Type = "list of strings"
	TypeMap        Type = "map of strings"
	TypeReferences Type = "list of services"
	TypeAny        Type = "any"
	TypeConstraint Type = "type" // such as list(string); not a value
)

// Block describes a block of the language. What decodes the block, what tells
// editors of it and what the documentation says of it is all made from this.
type Block struct {
	Type string `json:"type"`
	// Labels are the names of the labels.
	Labels []string `json:"labels,omitempty"`
	// Many says that there may be several.
	Many bool `json:"many,omitempty"`
	// Doc is Markdown.
	Doc string `json:"description,omitempty"`
	// Open says that the arguments have names of any kind.
	Open bool `json:"open,omitempty"`
	// Attributes are the arguments, in the order in which people read them.
	Attributes []Attribute `json:"attributes,omitempty"`
	Blocks     []Block     `json:"blocks,omitempty"`
}

// Attribute describes an argument.
type Attribute struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
	// Required says that it must be given.
	Required bool `json:"required,omitempty"`
	// Default is what holds without it, as it would be written, or empty.
	Default string `json:"default,omitempty"`
	// DefaultDoc says in words what holds without it, where that is no constant.
	DefaultDoc string `json:"defaultDescription,omitempty"`
	// Unit says what a number counts.
	Unit string `json:"unit,omitempty"`
	// Range says which values it can have, where not every one of its type.
	Range string `json:"range,omitempty"`
	// Values are all that it can have, where these are few words.
	Values []string `json:"values,omitempty"`
	// Doc is Markdown.
	Doc string `json:"description"`
	// Example is a value as it would be written. Where there is none, Default
	// is one.
	Example string `json:"example,omitempty"`
	// Deprecated says what to write instead of it, if it is to go one day. It is
	// read until then, with a warning.
	Deprecated string `json:"deprecated,omitempty"`
}

// attribute returns the description of an argument.
func (b Block) attribute(name string) (Attribute, bool) {
	i := slices.IndexFunc(b.Attributes, func(a Attribute) bool { return a.Name == name })
	if i < 0 {
		return Attribute{}, false
	}
	return b.Attributes[i], true
}

// block returns the description of a block in it.
func (b Block) block(name string) (Block, bool) {
	i := slices.IndexFunc(b.Blocks, func(b Block) bool { return b.Type == name })
	if i < 0 {
		return Block{}, false
	}
	return b.Blocks[i], true
}

// schema returns what the hcl library needs to decode the block. It would report
// a required argument that is missing without saying what to write, so that is
// left to the decoder.
func (b Block) schema() *hcl.BodySchema {
	schema := &hcl.BodySchema{}
	for _, a := range b.Attributes {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: a.Name})
	}
	for _, below := range b.Blocks {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: below.Type, LabelNames: below.Labels})
	}
	return schema
}

var rootSchema = Block{Blocks: []Block{hostSchema, variableSchema, localsSchema, serviceSchema}}
