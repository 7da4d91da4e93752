package config

import (
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// The defaults of the host block.
const (
	defaultListen          = "127.0.0.1:7433"
	defaultShutdownTimeout = 30 * time.Second
	defaultLogLevel        = "info"
	defaultStartLimit      = 16
)

var hostSchema = Block{
	Type: "host",
	Doc:  "The host itself.",
	Attributes: []Attribute{
		{Name: "listen", Type: TypeString, Default: `"127.0.0.1:7433"`, Doc: "address and port of the gateway. Port 0 means any free one. Off the loopback interface a [token](gateway.md#tokens) and TLS are required"},
		{
			Name: "state_dir", Type: TypePath, DefaultDoc: "see [below](#the-state-directory)", Example: `"/var/lib/plughost"`,
			Doc: "where the host keeps its state. `--state-dir` goes before it",
		},
		{
			Name: "log_level", Type: TypeString, Default: `"info"`, Values: []string{"trace", "debug", "info", "warn", "error"},
			Doc: "for the host's own log",
		},
		{
			Name: "start_limit", Type: TypeNumber, Default: "16", Unit: "services", Range: "1 to 10000",
			Doc: "how many services may be starting at once. The others wait for their turn",
		},
	},
	Blocks: []Block{shutdownSchema, logsSchema, controlSchema, gatewaySchema},
}

var shutdownSchema = Block{
	Type: "shutdown",
	Doc:  "How the whole host ends.",
	Attributes: []Attribute{
		{Name: "timeout", Type: TypeDuration, Default: `"30s"`, Doc: "what its stop may take, from the moment when it takes no more requests"},
	},
}

// hostDecl is a host block with the places of what it says.
type hostDecl struct {
	listen     val[string]
	listenPort int // 0 for any
	stateDir   val[string]
	shutdown   val[time.Duration]
	logLevel   val[string]
	startLimit val[int]
	logs       Logs
	control    Control
	gateway    gatewayDecl
	header     hcl.Range
}

// defaultHost is what holds without a host block.
func defaultHost() *hostDecl {
	return &hostDecl{
		listen:     val[string]{V: defaultListen},
		listenPort: 7433,
		shutdown:   val[time.Duration]{V: defaultShutdownTimeout},
		logLevel:   val[string]{V: defaultLogLevel},
		startLimit: val[int]{V: defaultStartLimit},
		logs:       defaultLogs(),
		gateway:    gatewayDecl{Gateway: Gateway{Limits: defaultGatewayLimits()}},
	}
}

func (d *decoder) host(block *hcl.Block) *hostDecl {
	content, _ := d.content(block.Body, hostSchema)
	h := defaultHost()
	h.listen = d.str(content.Attributes, "listen", defaultListen)
	h.control = d.control(d.single(content, "control"))
	h.gateway = d.gateway(d.single(content, "gateway"))
	if h.listen.Set {
		h.listenPort, h.listen.Set = d.listenAddress(h.listen)
	}
	if h.listen.Set && !onLoopback(h.listen.V) {
		d.exposed(h.listen, h.gateway)
	}
	h.stateDir = d.path(content.Attributes, "state_dir")
	h.logLevel = d.oneOf(content.Attributes, "log_level", defaultLogLevel, "trace", "debug", "info", "warn", "error")
	h.startLimit = d.whole(content.Attributes, "start_limit", defaultStartLimit, 1, 10000)
	if shutdown := d.single(content, "shutdown"); shutdown != nil {
		h.shutdown = d.duration(d.attrs(shutdown, shutdownSchema), "timeout", defaultShutdownTimeout, 1)
	}
	if logs := d.single(content, "logs"); logs != nil {
		h.logs = d.logs(logs)
	}
	return h
}

// listenAddress checks where the gateway is to listen, and returns the port.
func (d *decoder) listenAddress(listen val[string]) (port int, ok bool) {
	host, portText, err := net.SplitHostPort(listen.V)
	if err != nil {
		d.diags.errorf(listen.Range, "Not an address", "listen: an address and a port are wanted, such as %s.", quote(defaultListen))
		return 0, false
	}
	port, err = strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		d.diags.errorf(listen.Range, "Not a port", "listen: the port must be a whole number from 1 to 65535, or 0 for any free one, but not %s.", quote(portText))
		return 0, false
	}
	if host == "localhost" {
		return port, true
	}
	switch _, err := netip.ParseAddr(host); {
	case host == "":
		d.diags.errorf(listen.Range, "Not an address",
			`listen: without an address it would be unclear who can reach the gateway. Write "127.0.0.1:%d" for this machine alone, or "[::]:%d" for all who can.`, port, port)
	case err != nil:
		d.diags.errorf(listen.Range, "Not an address", `listen: %s is no IP address. Write "127.0.0.1:%d".`, quote(host), port)
	default:
		return port, true
	}
	return 0, false
}

// OnLoopback reports whether only this machine reaches the gateway.
func (h Host) OnLoopback() bool { return onLoopback(h.Listen) }

// onLoopback reports whether only this machine reaches a checked address.
func onLoopback(listen string) bool {
	host, _, _ := net.SplitHostPort(listen)
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}
