package shared

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plughost/plughost/shared/marker"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/test/freeport"
)

// The test binary is its own plugin: launched with the cookie, it serves.
func TestMain(m *testing.M) {
	if Hosted() {
		servePlugin()
		return
	}
	os.Exit(m.Run())
}

// servePlugin serves a plugin that does what the frames of a session say.
func servePlugin() {
	p := &puppet{work: &Work{}, answer: make(chan struct{})}
	Serve(Plugin{
		Describe: &plughostv1.DescribeResponse{Kind: plughostv1.Kind_KIND_MCP, Name: "puppet"},
		Register: func(s *grpc.Server) { plughostv1.RegisterMCPServer(s, p) },
		HTTP: func(baseURL string) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { p.serveHTTP(w, baseURL) }), nil
		},
		Work: p.work,
	})
}

type puppet struct {
	plughostv1.UnimplementedMCPServer
	work   *Work
	answer chan struct{} // lets requests over HTTP be answered
}

func (p *puppet) Session(stream grpc.BidiStreamingServer[plughostv1.Frame, plughostv1.Frame]) error {
	var end func()
	var bequeath func(string)
	for {
		frame, err := stream.Recv()
		if err != nil {
			return nil
		}
		reply := "done"
		switch string(frame.GetMessage()) {
		case "begin":
			var ok bool
			if end, ok = p.work.Begin(); !ok {
				reply = "refused"
			}
		case "log":
			log.Print("to standard error")
		case "flood": // more than one file takes
			_, _ = log.Writer().Write(bytes.Repeat([]byte("flood flood flood\n"), maxOutput/18+1))
		case "heir": // a child that writes, when it is told to, to what is standard error now
			heir := exec.Command("sh", "-c", "while read -r line; do echo $line >&2; done")
			heir.Stderr = log.Writer() // number 2: os.Stderr is go-plugin's
			in, err := heir.StdinPipe()
			if err == nil {
				err = heir.Start()
			}
			if err != nil {
				reply = err.Error()
			}
			bequeath = func(line string) { _, _ = io.WriteString(in, line+"\n") }
		case "heir writes":
			bequeath("from the heir")
		case "child":
			out, err := exec.Command("sh", "-c", "env; ls -l /proc/self/fd").CombinedOutput()
			reply = string(out)
			if err != nil {
				reply = err.Error()
			}
		case "answer":
			close(p.answer)
		}
		if err := stream.Send(&plughostv1.Frame{Message: []byte(reply)}); err != nil {
			return err
		}
		if string(frame.GetMessage()) == "end" {
			end()
		}
	}
}

func (p *puppet) serveHTTP(w http.ResponseWriter, baseURL string) {
	end, ok := p.work.Begin()
	if !ok {
		http.Error(w, "refused", http.StatusServiceUnavailable)
		return
	}
	_ = http.NewResponseController(w).Flush() // the client knows that it has begun
	<-p.answer
	end() // as with MCP, before the answer is written
	fmt.Fprint(w, baseURL)
}

// child is a running plugin, and the test its host.
type child struct {
	t        *testing.T
	dir      string
	cmd      *exec.Cmd
	exited   chan struct{} // closed when cmd.ProcessState is set
	lifeline *os.File      // the host's end
	stderrR  *os.File
	stderr   bytes.Buffer // whole once exited is closed
	conn     *grpc.ClientConn
}

// launch starts a plugin, without waiting for its handshake.
func launch(t *testing.T, env ...string) (c *child, stdout io.Reader) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ph") // short: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	makeKeys(t, dir)

	lifelineR, lifelineW := pipe(t)
	stdoutR, stdoutW := pipe(t)
	stderrR, stderrW := pipe(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c = &child{t: t, dir: dir, exited: make(chan struct{}), lifeline: lifelineW, stderrR: stderrR}
	c.cmd = exec.Command(self)
	c.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		cookieKey + "=" + cookieValue,
		"PLUGIN_PROTOCOL_VERSIONS=" + strconv.Itoa(ProtocolVersion),
		"PLUGIN_UNIX_SOCKET_DIR=" + dir,
		EnvInstanceDir + "=" + dir,
		EnvLifeline + "=3",
	}, append(identity.Environ(), env...)...)
	c.cmd.Stdout, c.cmd.Stderr, c.cmd.ExtraFiles = stdoutW, stderrW, []*os.File{lifelineR}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*os.File{lifelineR, stdoutW, stderrW} {
		_ = f.Close()
	}
	go func() {
		_, _ = io.Copy(&c.stderr, stderrR)
		_ = c.cmd.Wait()
		close(c.exited)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.exited
	})
	t.Cleanup(func() {
		if c.conn != nil {
			_ = c.conn.Close()
		}
	})
	return c, stdoutR
}

var identity = marker.Identity{Kind: marker.KindMCP, Service: "puppet", Installation: "installation", Instance: "instance"}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	return r, w
}

// start launches a plugin and connects to it as a go-plugin host does.
func start(t *testing.T, env ...string) *child {
	t.Helper()
	c, stdout := launch(t, env...)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("no handshake: %v", err)
	}
	fields := strings.Split(strings.TrimSpace(line), "|")
	if len(fields) < 5 || fields[1] != strconv.Itoa(ProtocolVersion) || fields[2] != "unix" || fields[4] != "grpc" {
		t.Fatalf("handshake %q", line)
	}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  Handshake(),
		Plugins:          Plugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		TLSConfig:        hostTLS(t, c.dir),
		Logger:           hclog.NewNullLogger(),
		Reattach: &plugin.ReattachConfig{
			Protocol:        plugin.ProtocolGRPC,
			ProtocolVersion: ProtocolVersion,
			Addr:            &net.UnixAddr{Net: "unix", Name: fields[3]},
			Pid:             c.cmd.Process.Pid,
			Test:            true, // it is not go-plugin's to kill
		},
	})
	protocol, err := client.Client()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := protocol.Dispense(PluginName)
	if err != nil {
		t.Fatal(err)
	}
	c.conn = raw.(*grpc.ClientConn)
	return c
}

// wait waits for the plugin's end and returns its exit status.
func (c *child) wait() int {
	<-c.exited
	return c.cmd.ProcessState.ExitCode()
}

// checkGone checks that a plugin ended in order and left no socket.
func (c *child) checkGone() {
	c.t.Helper()
	if code := c.wait(); code != 0 {
		c.t.Errorf("%v, want exit status 0; standard error:\n%s", c.cmd.ProcessState, &c.stderr)
	}
	sockets, err := filepath.Glob(filepath.Join(c.dir, "plugin*"))
	if err != nil || len(sockets) != 0 {
		c.t.Errorf("left behind: %v (%v)", sockets, err)
	}
}

// session opens a session on which say sends a frame and returns the answer.
func (c *child) session() (say func(frame string) string) {
	c.t.Helper()
	stream, err := plughostv1.NewMCPClient(c.conn).Session(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return func(frame string) string {
		c.t.Helper()
		if err := stream.Send(&plughostv1.Frame{Message: []byte(frame)}); err != nil {
			c.t.Fatalf("%s: %v", frame, err)
		}
		answer, err := stream.Recv()
		if err != nil {
			c.t.Fatalf("%s: %v", frame, err)
		}
		return string(answer.GetMessage())
	}
}

// untilDraining returns when the plugin says that it is draining.
func (c *child) untilDraining() {
	c.t.Helper()
	for {
		health, err := plughostv1.NewPluginClient(c.conn).Health(c.t.Context(), &plughostv1.HealthRequest{})
		if err != nil {
			c.t.Fatal(err)
		}
		if health.GetStatus() == plughostv1.HealthResponse_STATUS_DRAINING {
			return
		}
	}
}

var endings = []struct {
	name string
	end  func(*child)
}{
	{"the host is gone", func(c *child) { _ = c.lifeline.Close() }},
	{"SIGTERM", func(c *child) { _ = c.cmd.Process.Signal(syscall.SIGTERM) }},
}

func TestIdlePluginEnds(t *testing.T) {
	for _, ending := range endings {
		t.Run(ending.name, func(t *testing.T) {
			c := start(t)
			ending.end(c)
			c.checkGone()
		})
	}
}

func TestPluginFinishesItsWorkBeforeItEnds(t *testing.T) {
	for _, ending := range endings {
		t.Run(ending.name, func(t *testing.T) {
			c := start(t)
			say := c.session()
			if got := say("begin"); got != "done" {
				t.Fatalf("begin: %s", got)
			}
			ending.end(c)
			c.untilDraining()
			if got := c.session()("begin"); got != "refused" {
				t.Errorf("new work while draining: %s", got)
			}
			if got := say("end"); got != "done" {
				t.Errorf("the answer is %q", got)
			}
			c.checkGone()
		})
	}
}

func TestDrainByTheHostIsFollowedByAQuickEnd(t *testing.T) {
	c := start(t)
	say := c.session()
	say("begin")
	drained := make(chan error, 1)
	go func() {
		_, err := plughostv1.NewPluginClient(c.conn).Drain(t.Context(), &plughostv1.DrainRequest{})
		drained <- err
	}()
	c.untilDraining()
	select {
	case err := <-drained:
		t.Errorf("drained with work in flight: %v", err)
	default:
	}
	say("end")
	if err := <-drained; err != nil {
		t.Error(err)
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	c.checkGone()
}

func TestPluginOutlivesTheReaderOfItsLog(t *testing.T) {
	c := start(t)
	say := c.session()
	say("begin")
	_ = c.stderrR.Close()
	_ = c.lifeline.Close()
	c.untilDraining()
	for range 2 { // the first write to a broken pipe is the one that kills
		if got := say("log"); got != "done" {
			t.Errorf("log: %s", got)
		}
	}
	say("end")
	c.checkGone()
}

func TestPluginsOwnChildrenInheritTheMarkerAlone(t *testing.T) {
	c := start(t, EnvPort+"="+strconv.Itoa(freeport.Take(t, 1)[0]))
	out := c.session()("child")
	for _, stamp := range identity.Environ() {
		if !strings.Contains(out, stamp+"\n") {
			t.Errorf("%s is not inherited", stamp)
		}
	}
	for _, name := range []string{cookieKey, EnvLifeline, EnvInstanceDir, "PLUGIN_", "pipe:[" + c.lifelineInode() + "]"} {
		if strings.Contains(out, name) {
			t.Errorf("%s is inherited:\n%s", name, out)
		}
	}
}

func (c *child) lifelineInode() string {
	c.t.Helper()
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(c.lifeline.Fd()), &stat); err != nil {
		c.t.Fatal(err)
	}
	return strconv.FormatUint(stat.Ino, 10)
}

func TestPluginAcceptsOnlyTheHost(t *testing.T) {
	c := start(t)
	c.session()("hello")
	sockets, _ := filepath.Glob(filepath.Join(c.dir, "plugin*"))
	if len(sockets) != 1 {
		t.Fatalf("sockets %v", sockets)
	}
	conn, err := tls.Dial("unix", sockets[0], &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return // refused at once
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a client without a certificate was not refused: %v", err)
	}
}

func TestWhatCannotBeServedEndsWithAClearLineBeforeTheHandshake(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := []struct {
		name string
		env  string
		want []string
	}{
		{"the port is in use", EnvPort + "=" + port(taken), []string{"cannot have the service's port", taken.Addr().String(), "address already in use"}},
		{"the port is no number", EnvPort + "=x", []string{`PLUGHOST_PORT is "x"`}},
		{"the lifeline is not open", EnvLifeline + "=99", []string{"PLUGHOST_LIFELINE=99 is no open file descriptor"}},
		{"there is no certificate", EnvInstanceDir + "=/nonexistent", []string{"cannot load the plugin's certificate"}},
		{"the socket cannot be made", "PLUGIN_UNIX_SOCKET_DIR=/nonexistent", []string{"go-plugin could not open the plugin's socket", "/nonexistent"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, stdout := launch(t, test.env)
			handshake, _ := io.ReadAll(stdout)
			if code := c.wait(); code != 1 {
				t.Errorf("%v, want exit status 1", c.cmd.ProcessState)
			}
			if len(handshake) > 0 {
				t.Errorf("standard output %q", handshake)
			}
			for _, want := range append(test.want, "[ERROR] cannot serve the plugin: ") {
				if !strings.Contains(c.stderr.String(), want) {
					t.Errorf("standard error does not say %q:\n%s", want, &c.stderr)
				}
			}
		})
	}
}

func TestPortServesHTTPAndFinishesIt(t *testing.T) {
	baseURL := "http://127.0.0.1:" + strconv.Itoa(freeport.Take(t, 1)[0])
	c := start(t, EnvPort+"="+strings.TrimPrefix(baseURL, "http://127.0.0.1:"))
	say := c.session()

	foreign, err := http.NewRequestWithContext(t.Context(), http.MethodGet, baseURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	foreign.Host = "evil.example"
	refused, err := http.DefaultClient.Do(foreign)
	if err != nil {
		t.Fatal(err)
	}
	_ = refused.Body.Close()
	if refused.StatusCode != http.StatusForbidden {
		t.Errorf("status %d for a foreign host, want 403", refused.StatusCode)
	}

	response, err := http.Get(baseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	c.untilDraining()
	say("answer")
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != baseURL {
		t.Errorf("body %q, error %v; want %q", body, err, baseURL)
	}
	c.checkGone()
}

func TestDrainIsRefusedToNobody(t *testing.T) {
	c := start(t)
	client := plughostv1.NewPluginClient(c.conn)
	c.session()("begin")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Drain(ctx, &plughostv1.DrainRequest{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error %v, want a deadline exceeded", err)
	}
	if _, err := client.Describe(t.Context(), &plughostv1.DescribeRequest{}); err != nil {
		t.Errorf("describe while draining: %v", err)
	}
}

func port(l net.Listener) string {
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

const instanceName = "instance"

// makeKeys writes what a host writes into an instance's directory, and the
// host's own key pair beside it.
func makeKeys(t *testing.T, dir string) {
	t.Helper()
	caKey := newKey(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	writeCert(t, dir, CAFile, "", ca, ca, caKey, caKey)
	for usage, files := range map[x509.ExtKeyUsage][2]string{
		x509.ExtKeyUsageServerAuth: {CertFile, KeyFile},
		x509.ExtKeyUsageClientAuth: {"host.pem", "host.key"},
	} {
		writeCert(t, dir, files[0], files[1], &x509.Certificate{
			SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{instanceName},
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		}, ca, newKey(t), caKey)
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writeCert(t *testing.T, dir, certFile, keyFile string, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}}
	if keyFile != "" {
		files[keyFile] = &pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}
	}
	for name, block := range files {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func hostTLS(t *testing.T, dir string) *tls.Config {
	t.Helper()
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "host.pem"), filepath.Join(dir, "host.key"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: pool, ServerName: instanceName}
}
