package config

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

func FuzzLoad(f *testing.F) {
	for _, tt := range badCases {
		f.Add([]byte(written(tt.text)), false)
	}
	f.Add([]byte(everything), false)
	f.Add([]byte(everythingJSON), true)
	f.Add([]byte(`{"service":{"mcp":{"a":{"command":["sh","${[for x in [1,2] : x]}","%{ if true }x%{ endif }"],"env":{"${1}":null}}}}}`), true)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, src []byte, json bool) {
		name := filepath.Join(dir, "fuzz.hcl")
		if json {
			name += ".json"
		}
		if err := os.WriteFile(name, src, 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, diags := Load(name)
		if (cfg == nil) != diags.HasErrors() {
			t.Fatalf("configuration given: %t, errors: %t", cfg != nil, diags.HasErrors())
		}
		for _, d := range diags.All() {
			if d.Summary == "" || d.Range.Start.Byte < 0 || d.Range.Start.Byte > len(src) || d.Range.Start.Byte > d.Range.End.Byte {
				t.Errorf("misplaced: %+v", d)
			}
		}
		for _, width := range []int{0, 30} {
			if err := WriteDiagnostics(io.Discard, diags, true, width); err != nil {
				t.Fatal(err)
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
