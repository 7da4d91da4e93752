package config

import (
	"fmt"
	"strings"
)

// Schema describes the language, for editors and for people.
type Schema struct {
	FormatVersion string     `json:"format_version"`
	Blocks        []Block    `json:"blocks"`
	Functions     []Function `json:"functions"`
}

// Language describes all that a configuration can hold.
func Language() Schema {
	return Schema{FormatVersion: "1.0", Blocks: rootSchema.Blocks, Functions: allFunctions()}
}

// Reference returns a table of Markdown for every block that has arguments, by
// its path, such as service.restart, and one for the functions.
func (s Schema) Reference() map[string]string {
	tables := map[string]string{"functions": functionTable(s.Functions)}
	var add func(prefix string, blocks []Block)
	add = func(prefix string, blocks []Block) {
		for _, b := range blocks {
			if len(b.Attributes) > 0 {
				tables[prefix+b.Type] = b.table()
			}
			add(prefix+b.Type+".", b.Blocks)
		}
	}
	add("", s.Blocks)
	return tables
}

// table returns the arguments of a block as a table of Markdown.
func (b Block) table() string {
	var t strings.Builder
	t.WriteString("| attribute | type | default | meaning |\n|---|---|---|---|\n")
	for _, a := range b.Attributes {
		fmt.Fprintf(&t, "| `%s` | %s | %s | %s |\n", a.Name, a.typeText(), a.defaultText(), a.meaning())
	}
	return t.String()
}

func (a Attribute) typeText() string {
	text := string(a.Type)
	switch {
	case len(a.Values) > 0:
		text = "`" + strings.Join(a.Values, "`, `") + "`"
	case a.Unit != "":
		text += " of " + a.Unit
	}
	if a.Range != "" {
		text += ", " + a.Range
	}
	return text
}

func (a Attribute) defaultText() string {
	switch {
	case a.Required:
		return "required"
	case a.Default != "":
		return "`" + a.Default + "`"
	default:
		return a.DefaultDoc
	}
}

func (a Attribute) meaning() string {
	text := a.Doc
	if a.Example != "" {
		text += fmt.Sprintf(". Example: `%s`", a.Example)
	}
	if a.Deprecated != "" {
		text += ". Deprecated: " + a.Deprecated
	}
	return text
}

func functionTable(functions []Function) string {
	var t strings.Builder
	t.WriteString("| function | result | example |\n|---|---|---|\n")
	for _, f := range functions {
		example := "`" + f.Example + "`"
		if f.Result != "" {
			example += " is `" + f.Result + "`"
		}
		fmt.Fprintf(&t, "| `%s` | %s | %s |\n", f.Usage, f.Doc, example)
	}
	return t.String()
}
