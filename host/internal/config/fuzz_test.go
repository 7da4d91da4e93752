package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzLoad(f *testing.F) {
	for _, tt := range badCases {
		f.Add([]byte(written(tt.text)), false)
	}
	f.Add([]byte(everything), false)
	f.Add([]byte(everythingJSON), true)
	f.Add([]byte(`{"service":{"mcp":{"a":{"command":["sh","${[for x in [1,2] : x]}","%{ if true }x%{ endif }"],"env":{"${1}":null}}}}}`), true)
	f.Add([]byte(`{"variable":{"a":{"type":"list(number)","default":[1,2]}},"locals":{"b":"${[for x in var.a : x + local.c]}","c":"${length(local.d)}","d":["${service.mcp.a.port}"]},"service":{"mcp":{"a":{"command":["sh","%{ for x in local.b }${x}%{ endfor }"],"port":"${8000 + 1}","env":{"${upper(\"k\")}":"${jsonencode(local.b)}"}}}}}`), true)
	f.Add([]byte(`{"locals":[{"a":"${local.b}"},{"b":"${try(local.a[0], sensitive(1))}"}],"service":{"mcp":{"a":{"command":"${local.a}"}}}}`), true)
	for _, source := range secretSources {
		f.Add([]byte(written(source)), false)
	}
	dir := f.TempDir()
	const secret = "canary-4e1f7a"
	f.Fuzz(func(t *testing.T, src []byte, json bool) {
		name := filepath.Join(dir, "fuzz.hcl")
		if json {
			name += ".json"
		} else {
			src = append([]byte(secretVariables), src...)
		}
		if err := os.WriteFile(name, src, 0o600); err != nil {
			t.Fatal(err)
		}
		// A small budget, so that what takes long is a fault.
		cfg, diags := Input{Paths: []string{name}, Vars: []string{"token=" + secret, "list=[\"" + secret + "\"]"}, budget: 100_000}.Load()
		if (cfg == nil) != diags.HasErrors() {
			t.Fatalf("configuration given: %t, errors: %t", cfg != nil, diags.HasErrors())
		}
		for _, d := range diags.All() {
			if d.Summary == "" || d.Range.Start.Byte < 0 || d.Range.Start.Byte > len(src) || d.Range.Start.Byte > d.Range.End.Byte {
				t.Errorf("misplaced: %+v", d)
			}
		}
		for _, width := range []int{0, 30} {
			var out strings.Builder
			if err := WriteDiagnostics(&out, diags, true, width); err != nil {
				t.Fatal(err)
			}
			if !json && strings.Contains(out.String(), secret) && !bytes.Contains(src, []byte("canary")) {
				t.Errorf("the secret is shown:\n%s", out.String())
			}
		}
		if cfg != nil {
			for _, s := range cfg.Services {
				s.Hash()
			}
			cfg.StartOrder()
		}
	})
}

const secretVariables = "variable token {\n sensitive=true\n}\nvariable list {\n sensitive=true\n type=list(string)\n}\n"

// secretSources make something of these variables.
var secretSources = []string{
	`@ env={A=var.token,(var.token)="x",B=[var.token]}| port=var.token| dir=var.token|}`,
	`@ port=var.token| stop {|  grace=var.token| }|}`,
	`@ inherit=concat(var.list,var.list)| command=var.list|}`,
	`variable "copy" {| default=""| validation {|  condition=var.token==""|  error_message="${var.token}"| }|}|locals {| a=jsondecode(var.token)| b={a=1}[var.token]| c=[for k in var.token:k]|}`,
	`@ env=merge({A=1},{(var.token)=format("%s",var.token)})| limits {|  memory=var.token| }| tools {|  allow=[var.token]| }|}`,
}

func FuzzVarFile(f *testing.F) {
	f.Add([]byte("token = \"x\"\nlist = [1, \"a\"]\n"), false)
	f.Add([]byte("token = local.x\nlist = upper(\"x\")\nother = 1\n"), false)
	f.Add([]byte(`{"token": "x", "list": ["a", null], "other": {"a": 1e5}}`), true)
	dir := f.TempDir()
	config := filepath.Join(dir, "services.hcl")
	if err := os.WriteFile(config, []byte(written(`variable "token" {| default=""| sensitive=true|}|variable "list" {| default=[]| type=list(string)|}|@ env={A=jsonencode(var.list),T="${var.token}"}|}`)), 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, src []byte, json bool) {
		name := filepath.Join(dir, "values.hcl")
		if json {
			name = filepath.Join(dir, "values.json")
		}
		if err := os.WriteFile(name, src, 0o600); err != nil {
			t.Fatal(err)
		}
		in := Input{Paths: []string{config}, VarFiles: []string{name}, Vars: []string{"list=" + string(src)}, budget: 100_000}
		for range 2 {
			cfg, diags := in.Load()
			if (cfg == nil) != diags.HasErrors() {
				t.Fatalf("configuration given: %t, errors: %t", cfg != nil, diags.HasErrors())
			}
			in.Vars = nil
		}
	})
}
