package launch_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/mcpplugin"
	"github.com/plughost/plughost/shared/pluginconfig"
)

// envPlugin has the test binary be one of the plugins below instead.
const envPlugin = "LAUNCH_TEST_PLUGIN"

var plugins = map[string]func(){
	// A plugin as it should be.
	"good": serve,
	// One that is configured.
	"zoned": func() {
		server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		mcpplugin.Serve(server, mcpplugin.WithConfig(&zoned{}))
	},
	// A wrapper that is loud before its handshake.
	"noisy": func() {
		fmt.Println("Welcome!")
		fmt.Println("1|2")
		fmt.Println(strings.Repeat("x", 100_000))
		fmt.Println(`{"@message":1}`)
		fmt.Fprintln(os.Stderr, `{"@message":1}`)
		serve()
	},
	// No plugin at all.
	"usage": func() {
		fmt.Fprintln(os.Stderr, "usage: frobnicate FILE")
		os.Exit(2)
	},
	// Ends at once without a word.
	"mute": func() {},
	// Never says anything, and does not want to end.
	"hang": func() {
		signal.Ignore(syscall.SIGTERM)
		select {}
	},
	// Begins a handshake and never ends it.
	"half": func() {
		fmt.Print("1|1|unix|/tmp/")
		select {}
	},
	// Points the host at a socket that is not its own.
	"elsewhere": func() {
		fmt.Println("1|1|unix|/run/systemd/notify|grpc|")
		select {}
	},
	// Speaks a protocol of another version.
	"newer": func() {
		fmt.Println("1|99|unix|" + os.Getenv("PLUGIN_UNIX_SOCKET_DIR") + "/s|grpc|")
		select {}
	},
	// Leaves a process behind that holds its output, then exits.
	"leaver": func() {
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		child := exec.Command(self)
		child.Env = append(os.Environ(), envPlugin+"=hang")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "leaving")
		os.Exit(3)
	},
	// Starts such a child, and serves.
	"parent": func() {
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		child := exec.Command(self)
		child.Env = append(os.Environ(), envPlugin+"=hang")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			panic(err)
		}
		serve()
	},
}

// zoned is a configuration whose plugin knows one zone.
type zoned struct {
	Zone string `json:"zone"`
}

func (z *zoned) Validate() error {
	if z.Zone != "UTC" {
		return &pluginconfig.FieldError{Path: []string{"zone"}, Err: errors.New("there is only UTC")}
	}
	return nil
}

func serve() {
	mcpplugin.Serve(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil))
}

func TestMain(m *testing.M) {
	if plugin, ok := plugins[os.Getenv(envPlugin)]; ok {
		plugin()
		return
	}
	if process, ok := systemProcesses[os.Getenv(envPlugin)]; ok {
		process()
		return
	}
	os.Exit(m.Run())
}
