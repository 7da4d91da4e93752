package config

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func TestDeprecatedArgumentsAreReadWithAWarning(t *testing.T) {
	schema := Block{Attributes: []Attribute{
		{Name: "old", Type: TypeString, Doc: "what it was", Deprecated: "write new"},
		{Name: "new", Type: TypeString, Doc: "what it is"},
	}}
	file, diags := hclsyntax.ParseConfig([]byte("new = 1\nold = 2\n"), "a.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var found collector
	d := &decoder{diags: &found}
	content, ok := d.content(file.Body, schema)
	if !ok || content.Attributes["old"] == nil {
		t.Errorf("it is not read: %v", content.Attributes)
	}
	wantFindings(t, found.finish([]string{"a.hcl"}, map[string]*hcl.File{"a.hcl": file}), warns("2,1-4", "Deprecated", "write new"))
	if table := schema.table(); !strings.Contains(table, "what it was. Deprecated: write new |") {
		t.Errorf("the documentation does not say so:\n%s", table)
	}
}
