package launch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-plugin"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/shared"
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
	// One that says more of its health than it should.
	"sick": func() {
		server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		mcpplugin.Serve(server, mcpplugin.WithHealth(func(context.Context) error {
			return errors.New("the key hunter2 has expired")
		}))
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
	// Speak protocols of other versions.
	"newer": func() { serveVersion(2) },
	"older": func() { serveVersion(0) },
	"newer-core": func() {
		fmt.Println("2|1|unix|" + os.Getenv("PLUGIN_UNIX_SOCKET_DIR") + "/s|grpc|")
		select {}
	},
	// Is for another program than plughost.
	"foreign": func() {
		config := shared.Handshake()
		config.MagicCookieKey, config.MagicCookieValue = "TERRAFORM", "x"
		plugin.Serve(&plugin.ServeConfig{HandshakeConfig: config, Plugins: plugin.PluginSet{shared.PluginName: bare{}}})
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

// bare is a plugin of go-plugin's that can do nothing.
type bare struct{ plugin.NetRPCUnsupportedPlugin }

func (bare) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error { return nil }

func (bare) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.ErrUnsupported
}

// serveVersion is a plugin that speaks another version of the protocol.
func serveVersion(version uint) {
	config := shared.Handshake()
	config.ProtocolVersion = version
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: config, Plugins: plugin.PluginSet{shared.PluginName: bare{}}, GRPCServer: plugin.DefaultGRPCServer,
	})
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
