package config

import (
	"encoding/json"
	"path/filepath"
	"testing"
)

// The names of the fields are those that Terraform documents for its validate
// -json, which editors read.
func TestReportForPrograms(t *testing.T) {
	golden, err := filepath.Abs(filepath.Join("testdata", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	_, diags := loadText(t, "services.hcl", written("@ port=\"é\" # x|}|service \"agent\" \"b\" {| command=[\"sh\"]| tools {|  allow=[\"c/*\"]| }|}|variable \"t\" {| type=number| sensitive=true| default=\"hunter2\"|}"))
	got, err := json.MarshalIndent(diags.Report(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, golden, append(got, '\n'))
}

func TestReportOfAGoodConfiguration(t *testing.T) {
	_, diags := loadText(t, "services.hcl", written("@}"))
	got, err := json.Marshal(diags.Report())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"format_version":"1.0","valid":true,"error_count":0,"warning_count":0,"diagnostics":[]}`
	if string(got) != want {
		t.Errorf("the report is %s, want %s", got, want)
	}
}
