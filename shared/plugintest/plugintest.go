// Package plugintest hosts a plugin in a test, as plughost does: it launches the
// built binary, shakes hands over mutual TLS, configures it, gives the test a
// client, and ends it. A plugin that does not end by itself, or leaves
// something behind, fails the test.
//
//	func TestHosted(t *testing.T) {
//		plugin := plugintest.Start(t, plugintest.Build(t, "."))
//		result, err := plugin.MCP().CallTool(t.Context(), &mcp.CallToolParams{Name: "now"})
//		...
//	}
package plugintest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/marker"
	"github.com/plughost/plughost/shared/pki"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/tunnel"
)

// StartTimeout is how long a plugin may take until it is ready.
const StartTimeout = time.Minute

// StopGrace is what a plugin gets to drain and to end.
const StopGrace = 10 * time.Second

// Build builds the main package at a path, as in go build, and returns the
// binary, which is gone with the test.
func Build(t testing.TB, pkg string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "plugin")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, pkg).CombinedOutput(); err != nil {
		t.Fatalf("cannot build the plugin: %v\n%s", err, output)
	}
	return binary
}

// Plugin is a plugin that runs.
type Plugin struct {
	t         testing.TB
	identity  marker.Identity
	dir       string
	authority *pki.Authority
	client    *plugin.Client
	cmd       *exec.Cmd
	lifeline  *os.File
	process   *probes.Process
	conn      *grpc.ClientConn
	describe  *plughostv1.DescribeResponse
	ready     bool // it was started
	ended     bool
}

// Option changes how a plugin is started.
type Option func(*options)

type options struct {
	args, env []string
	config    any
	port      int
}

// WithArgs gives arguments to the plugin.
func WithArgs(args ...string) Option { return func(o *options) { o.args = args } }

// WithEnv sets variables, as NAME=VALUE. The plugin has no others.
func WithEnv(env ...string) Option { return func(o *options) { o.env = append(o.env, env...) } }

// WithConfig configures the plugin with what encoding/json makes of config.
func WithConfig(config any) Option { return func(o *options) { o.config = config } }

// WithPort gives a port to the plugin, for its protocol over HTTP.
func WithPort(port int) Option { return func(o *options) { o.port = port } }

// Start launches a plugin, and ends it with the test at the latest.
func Start(t testing.TB, binary string, opts ...Option) *Plugin {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	p := newPlugin(t)
	if err := p.start(binary, o); err != nil {
		t.Fatalf("cannot start the plugin: %v", err)
	}
	return p
}

func newPlugin(t testing.TB) *Plugin {
	p := &Plugin{t: t, identity: marker.Identity{
		Kind: marker.KindMCP, Service: "plugintest", Installation: uuid.NewString(), Instance: uuid.NewString(),
	}}
	t.Cleanup(p.cleanUp)
	return p
}

func (p *Plugin) start(binary string, o options) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	if err := p.prepare(); err != nil {
		return err
	}
	lifelineR, lifelineW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer lifelineR.Close()
	p.lifeline = lifelineW
	p.cmd = exec.Command(binary, o.args...)
	p.cmd.Env = slices.Concat(o.env, []string{shared.EnvInstanceDir + "=" + p.dir, plugin.EnvUnixSocketDir + "=" + p.dir})
	if runtime.GOOS != "windows" {
		p.cmd.ExtraFiles = []*os.File{lifelineR}
		p.cmd.Env = append(p.cmd.Env, shared.EnvLifeline+"=3")
	}
	if o.port != 0 {
		p.cmd.Env = append(p.cmd.Env, shared.EnvPort+"="+strconv.Itoa(o.port))
	}
	p.cmd.Env = append(p.cmd.Env, p.identity.Environ()...)
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  shared.Handshake(),
		Plugins:          shared.Plugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Cmd:              p.cmd,
		SkipHostEnv:      true,
		TLSConfig:        p.authority.ClientTLS(p.identity.Instance),
		StartTimeout:     StartTimeout,
		Logger: hclog.New(&hclog.LoggerOptions{
			Level: hclog.Info, Output: testWriter{p.t}, DisableTime: true,
		}),
	})
	if err := p.connect(o.config); err != nil {
		return err
	}
	p.ready = true
	return nil
}

// prepare makes the instance's directory, with its keys. The path is short:
// there are sockets in it.
func (p *Plugin) prepare() (err error) {
	if p.dir, err = os.MkdirTemp("", "plugin"); err != nil {
		return err
	}
	certPEM, keyPEM, err := pki.Make("plugintest")
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return err
	}
	if p.authority, err = pki.New(pair); err != nil {
		return err
	}
	return p.authority.WriteInstanceFiles(p.dir, p.identity.Instance)
}

// connect shakes hands, asks the plugin what it is, and configures it.
func (p *Plugin) connect(config any) error {
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	if p.process, err = probes.Open(p.cmd.Process.Pid); err != nil {
		return err
	}
	dispensed, err := protocol.Dispense(shared.PluginName)
	if err != nil {
		return err
	}
	p.conn = dispensed.(*grpc.ClientConn)
	ctx, cancel := context.WithTimeout(context.Background(), StartTimeout)
	defer cancel()
	life := plughostv1.NewPluginClient(p.conn)
	if p.describe, err = life.Describe(ctx, &plughostv1.DescribeRequest{}); err != nil {
		return err
	}
	if len(p.describe.GetConfigSchema()) == 0 {
		if config != nil {
			return errors.New("it declares no configuration, and one was given")
		}
		return nil
	}
	text := []byte("{}")
	if config != nil {
		if text, err = json.Marshal(config); err != nil {
			return err
		}
	}
	answer, err := life.Configure(ctx, &plughostv1.ConfigureRequest{Config: text})
	if err != nil {
		return err
	}
	var faults []error
	for _, fault := range answer.GetFaults() {
		faults = append(faults, fmt.Errorf("config %v: %s", fault.GetPath(), fault.GetMessage()))
	}
	return errors.Join(faults...)
}

// Describe is what the plugin says of itself.
func (p *Plugin) Describe() *plughostv1.DescribeResponse { return p.describe }

// Conn is the connection to the plugin, for what else it serves.
func (p *Plugin) Conn() *grpc.ClientConn { return p.conn }

// MCP opens a session with an MCP plugin. It is closed with the test.
func (p *Plugin) MCP() *mcp.ClientSession {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	stream, err := plughostv1.NewMCPClient(p.conn).Session(ctx)
	if err != nil {
		p.t.Fatalf("cannot open a session: %v", err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "plugintest", Version: "1"}, nil)
	session, err := client.Connect(ctx, tunnel.Transport(stream, cancel), nil)
	if err != nil {
		p.t.Fatalf("cannot open a session: %v", err)
	}
	return session
}

// Stop ends the plugin as the host does: it has it drain, and sends it SIGTERM.
// It fails the test if the plugin does not end by itself, or leaves something.
func (p *Plugin) Stop() {
	p.t.Helper()
	if !p.ready || p.ended {
		return
	}
	p.ended = true
	ctx, cancel := context.WithTimeout(context.Background(), StopGrace)
	defer cancel()
	if _, err := plughostv1.NewPluginClient(p.conn).Drain(ctx, &plughostv1.DrainRequest{}); err != nil {
		p.t.Errorf("the plugin does not drain: %v", err)
	}
	p.end(StopGrace)
}

// end ends the process and what it started.
func (p *Plugin) end(grace time.Duration) {
	birth, err := p.process.Birth()
	if err != nil {
		p.t.Errorf("cannot end the plugin: %v", err)
		return
	}
	record := probes.Record{PID: p.process.PID(), Birth: birth, Identity: p.identity}
	result, err := probes.StopHeld(context.Background(), p.process, record, grace)
	switch {
	case err != nil:
		p.t.Errorf("the plugin cannot be ended: %v", err)
	case grace == 0:
	case result.How == probes.Killed:
		p.t.Errorf("the plugin did not end within %v, and had to be killed", grace)
	case len(result.Swept) > 0:
		p.t.Errorf("the plugin left processes behind, which were ended: %v", result.Swept)
	}
}

// cleanUp ends what was not ended, and removes what was made.
func (p *Plugin) cleanUp() {
	p.Stop()
	if p.process != nil && !p.ended {
		p.end(0)
	}
	if p.client != nil {
		p.client.Kill() // it is gone, but for a start that failed
	}
	if p.process != nil {
		_ = p.process.Close()
	}
	if p.lifeline != nil {
		_ = p.lifeline.Close()
	}
	_ = os.RemoveAll(p.dir)
}

// testWriter writes a plugin's log to that of the test.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(bytes.TrimRight(p, "\n")))
	return len(p), nil
}
