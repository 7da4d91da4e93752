package scaffold

import (
	"errors"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the files do is tested with the built command; here, that they are Go
// and say the right names.
func TestWriteMakesAModule(t *testing.T) {
	for _, kind := range []string{KindMCP, KindAgent} {
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			files, err := Plugin{Name: "weather", Kind: kind, Module: "example.com/w", Replace: "/src/plughost"}.Write(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range files {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				if formatted, err := format.Source(text); strings.HasSuffix(name, ".go") && (err != nil || string(formatted) != string(text)) {
					t.Errorf("%s is not formatted: %v", name, err)
				}
				for want, in := range map[string]string{
					"module example.com/w": "go.mod", "=> /src/plughost": "go.mod",
					`service "` + kind + `" "weather"`: "services.hcl", "Command weather is": "main.go",
				} {
					if in == name && !strings.Contains(string(text), want) {
						t.Errorf("%s lacks %q", name, want)
					}
				}
			}
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	full := t.TempDir()
	kept := filepath.Join(full, "main.go")
	if err := os.WriteFile(kept, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Plugin{Name: "weather", Kind: KindMCP, Module: "w"}).Write(full); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a directory with something in it: %v", err)
	}
	if text, _ := os.ReadFile(kept); string(text) != "mine" {
		t.Error("what was there was overwritten")
	}
	for _, p := range []Plugin{{Name: "Weather!", Kind: KindMCP}, {Name: "", Kind: KindMCP}, {Name: "weather", Kind: "mpc"}} {
		dir := filepath.Join(t.TempDir(), "new")
		if _, err := p.Write(dir); err == nil {
			t.Errorf("%+v was written", p)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%+v: a directory was made", p)
		}
	}
}
