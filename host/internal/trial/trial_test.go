package trial

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/marker"
	"github.com/plughost/plughost/shared/mcpplugin"
)

// The test binary is its own plugin.
func TestMain(m *testing.M) {
	if shared.Hosted() {
		config := struct {
			Zone string `json:"zone"`
		}{}
		mcpplugin.Serve(mcp.NewServer(&mcp.Implementation{Name: "test"}, nil), mcpplugin.WithConfig(&config))
		return
	}
	os.Exit(m.Run())
}

func spec(t *testing.T, args ...string) launch.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return launch.Spec{
		Kind: marker.KindMCP, Name: "test", Path: self, Args: append([]string{"test"}, args...), Dir: t.TempDir(),
		ReadyTimeout: time.Minute, Output: func(launch.Stream, []byte) {},
	}
}

func TestAPluginIsAskedAndNothingIsLeft(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	schema, err := ConfigSchema(t.Context(), &launch.Spawner{}, spec(t))
	if err != nil || !strings.Contains(string(schema), `"zone"`) {
		t.Errorf("schema %s, %v", schema, err)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left in the directory for temporary files: %v", left)
	}
}

func TestWhatIsNoPluginHasNoSchema(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s := spec(t)
	s.Kind = marker.KindAgent
	if _, err := ConfigSchema(t.Context(), &launch.Spawner{}, s); err == nil || !strings.Contains(err.Error(), `kind "mcp"`) {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left in the directory for temporary files: %v", left)
	}
}

func TestSchemasAreKnownByWhatIsExecuted(t *testing.T) {
	schemas := Schemas{Dir: filepath.Join(t.TempDir(), "schemas"), Binaries: &launch.Binaries{}}
	s := spec(t, "main.js")
	script := filepath.Join(s.Dir, "main.js")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	if _, known := schemas.Get(s); known {
		t.Error("it is known before it was")
	}
	if err := schemas.Put(s, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if got, known := schemas.Get(s); !known || string(got) != "{}" {
		t.Errorf("got %q, %v", got, known)
	}
	other := s
	other.Args = []string{"test", "other.js"}
	if _, known := schemas.Get(other); known {
		t.Error("another argument is the same plugin")
	}
	write("another")
	if _, known := schemas.Get(s); known {
		t.Error("another script is the same plugin")
	}
}

func TestTheOldestSchemasGo(t *testing.T) {
	schemas := Schemas{Dir: t.TempDir(), Binaries: &launch.Binaries{}}
	for i := range maxRemembered + 5 {
		name := filepath.Join(schemas.Dir, fmt.Sprintf("%03d.json", i))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(time.Duration(i-1000) * time.Minute)
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	s := spec(t)
	if err := schemas.Put(s, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	left, _ := os.ReadDir(schemas.Dir)
	if _, known := schemas.Get(s); len(left) != maxRemembered || !known || left[0].Name() != "006.json" && left[1].Name() != "006.json" {
		t.Errorf("%d are left from %s on; the new one is there: %v", len(left), left[0].Name(), known)
	}
}
