package plugincheck

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/mcpplugin"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/test/freeport"
)

// envPlugin has the test binary be one of the plugins below; envDir is a
// directory that it may write to.
const (
	envPlugin = "PLUGINCHECK_TEST_PLUGIN"
	envDir    = "PLUGINCHECK_TEST_DIR"
)

var plugins = map[string]func(){
	"good": func() {
		hclog.New(&hclog.LoggerOptions{JSONFormat: true}).Info("hello")
		serve(&struct {
			Zone string `json:"zone,omitempty"`
		}{})
	},
	"needy": func() {
		serve(&struct {
			Zone string `json:"zone"`
		}{})
	},
	"picky": func() { serve(&picky{}) },
	"loud": func() {
		fmt.Println("Welcome!")
		fmt.Fprintln(os.Stderr, "starting up")
		serve(nil)
	},
	"promiscuous": func() {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		defer listener.Close()
		serve(nil)
	},
	"exclusive": func() {
		if _, err := os.OpenFile(filepath.Join(os.Getenv(envDir), "lock"), os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			panic(err)
		}
		serve(nil)
	},
	// Is never done with its work.
	"busy": func() {
		work := &shared.Work{}
		work.Begin()
		shared.Serve(shared.Plugin{
			Describe: &plughostv1.DescribeResponse{Kind: plughostv1.Kind_KIND_AGENT, Name: "busy"},
			Register: func(*grpc.Server) {}, Work: work, HTTP: nil,
		})
	},
	"none": func() { os.Exit(3) },
}

type picky struct{}

func (*picky) Validate() error { return errors.New("nothing is good enough") }

func serve(config any) {
	mcpplugin.Serve(mcp.NewServer(&mcp.Implementation{Name: "test"}, nil), mcpplugin.WithConfig(config))
}

func TestMain(m *testing.M) {
	if plugin, ok := plugins[os.Getenv(envPlugin)]; ok {
		plugin()
		return
	}
	os.Exit(m.Run())
}

// TestWhatIsFoundOfPlugins has one plugin that keeps its promises, and others
// each of which breaks some.
func TestWhatIsFoundOfPlugins(t *testing.T) {
	tests := []struct {
		plugin, config string
		want           map[string]Outcome // of what is not good
	}{
		{"good", "", nil},
		{"needy", "", map[string]Outcome{"configuration": Failed}},
		{"needy", `{"zone":"UTC"}`, nil},
		{"good", `{"zon":"UTC"}`, map[string]Outcome{"configuration": Failed}},
		{"picky", "", map[string]Outcome{"configuration": Failed}},
		{"loud", "", map[string]Outcome{"quiet stdout": Warning, "log format": Warning}},
		{"loud", `{}`, map[string]Outcome{"configuration": Failed}},
		{"promiscuous", "", map[string]Outcome{"port": Failed}},
		{"exclusive", "", map[string]Outcome{"double start": Failed, "lifeline": Failed, "log format": Warning}},
		{"busy", "", map[string]Outcome{"describe": Warning, "port": Skipped, "drain": Failed, "stop": Failed, "lifeline": Failed}},
		{"none", "", map[string]Outcome{"handshake": Failed}},
	}
	for _, test := range tests {
		t.Run(strings.TrimSpace(test.plugin+" "+test.config), func(t *testing.T) {
			t.Parallel()
			report := check(t, test.plugin, test.config)
			for _, f := range report.Findings {
				want := test.want[f.Check]
				if want == "" {
					want = Good
				}
				if f.Outcome != want {
					t.Errorf("%s is %s, want %s: %s", f.Check, f.Outcome, want, f.Found)
				}
				if bad := f.Outcome == Failed || f.Outcome == Warning; bad != (f.Advice != "") {
					t.Errorf("%s is %s, and the advice is %q", f.Check, f.Outcome, f.Advice)
				}
				delete(test.want, f.Check)
			}
			for missing := range test.want {
				t.Errorf("%s was not looked at", missing)
			}
		})
	}
}

func check(t *testing.T, plugin, config string) Report {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := launch.Spec{
		Name: "check", Path: self, Args: []string{"plugin"}, Dir: t.TempDir(),
		Env: []string{envPlugin + "=" + plugin, envDir + "=" + t.TempDir()}, ReadyTimeout: time.Minute,
	}
	opts := Options{Grace: time.Minute}
	if plugin == "busy" { // in vain
		opts.Grace = 300 * time.Millisecond
	} else {
		opts.Port = freeport.Take(t, 1)[0]
	}
	if config != "" {
		opts.Config = []byte(config)
	}
	report, err := Run(t.Context(), spec, opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}
