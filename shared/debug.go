package shared

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

const (
	// EnvDebug has a plugin that is started by hand wait for a host to attach to
	// it. It holds the name of the service that the plugin is for.
	EnvDebug = "PLUGHOST_DEBUG"
	// EnvReattach has a host attach to plugins in place of starting them. It
	// holds a JSON object from names of services to Reattach.
	EnvReattach = "PLUGHOST_REATTACH"
)

// Reattach is where a plugin is that somebody started by hand.
type Reattach struct {
	// PID is its process.
	PID int `json:"pid"`
	// Address is the absolute path of its Unix socket.
	Address string `json:"address"`
}

// Debugged reports whether this process was started by hand to be attached to.
func Debugged() bool { return !Hosted() && os.Getenv(EnvDebug) != "" }

// serveDebugged serves a plugin that was started by hand until it gets SIGINT or
// SIGTERM. Hosts may come and go. Only this user can reach it: the socket is in
// a directory of its own, and there is no TLS.
func serveDebugged(p Plugin, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "plughost-debug-") // of mode 0700
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	address := filepath.Join(dir, "plugin.sock")
	listener, err := net.Listen("unix", address)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := p.newServer()
	plughostv1.RegisterPluginServer(server, &pluginServer{plugin: p, setup: newSetup(p.Config)})
	p.Register(server)
	defer context.AfterFunc(ctx, server.Stop)()

	where, err := json.Marshal(map[string]Reattach{os.Getenv(EnvDebug): {PID: os.Getpid(), Address: address}})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Waiting for a host. Have it attach by setting, before plughost run:\n\n  export %s='%s'\n\n", EnvReattach, where)
	return server.Serve(listener)
}
