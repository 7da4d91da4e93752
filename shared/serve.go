package shared

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/shared/loopback"
	"github.com/plughost/plughost/shared/pluginconfig"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// drainBound is how long a plugin that is ending by itself (its host is gone,
// or it got SIGTERM) waits for its work in flight. The host has a bound of its
// own, the service's stop grace, after which it kills.
const drainBound = 10 * time.Second

// flushBound is how long a plugin that has finished its last work waits for
// the answers to get out of its connections, in parts: a process that is held up
// sends nothing meanwhile, and has lost one of them at most.
const (
	flushBound = 250 * time.Millisecond
	flushParts = 5
)

// Plugin is what one kind of plugin adds to the life that Serve gives it.
type Plugin struct {
	// Describe is the answer to the host's first question. Its SDK field is
	// filled in by Serve.
	Describe *plughostv1.DescribeResponse
	// Options are for the plugin's gRPC server.
	Options []grpc.ServerOption
	// Register adds the kind's gRPC services to the plugin's server.
	Register func(*grpc.Server)
	// HTTP returns the handler of the plugin's protocol over HTTP, used when
	// the service has a port. baseURL is where it will be reached. A plugin
	// without it leaves the port to its Backend.
	HTTP func(baseURL string) (http.Handler, error)
	// Work counts what is in flight.
	Work *Work
	// Health says why the plugin cannot do its work now; nil if it always can.
	Health func(context.Context) error
	// Config is the configuration that the plugin declares, or nil.
	Config *pluginconfig.Config
	// Backend is what does the plugin's work outside of its process, or nil.
	Backend Backend
}

// Backend is what a plugin has behind it that lives as long as it does, such as
// a process.
type Backend interface {
	// Start returns when the backend can work. The host is told only then that
	// the plugin is there, so its ready timeout bounds it.
	Start() error
	// Health says why the backend cannot work now.
	Health(ctx context.Context) error
	// Stop ends the backend, whether it was started or not, by the end of ctx
	// or shortly after. It is called once nothing is in flight or ctx, at the
	// least, is over, and may be called again, also at the same time.
	Stop(ctx context.Context)
}

// ExitError is a reason why a plugin ends that its exit status tells.
type ExitError struct {
	// Status is the exit status. 78, EX_CONFIG, keeps the host from trying
	// again.
	Status int
	Err    error
}

func (e *ExitError) Error() string { return e.Err.Error() }
func (e *ExitError) Unwrap() error { return e.Err }

// Serve runs a plugin that a plughost host launched until the host ends it or
// is gone itself. What cannot be served is written to standard error, where
// the host logs it, and the process exits with status 1, or that of an
// *ExitError.
func Serve(p Plugin) {
	if err := serve(p); err != nil {
		fmt.Fprintf(os.Stderr, "[ERROR] cannot serve the plugin: %v\n", err)
		status := 1
		if exit := (*ExitError)(nil); errors.As(err, &exit) {
			status = exit.Status
		}
		os.Exit(status)
	}
}

func serve(p Plugin) error {
	if Debugged() {
		return serveDebugged(p, os.Stdout)
	}
	env, err := readEnvironment(os.Getenv)
	if err != nil {
		return err
	}
	tlsConf, err := tlsConfig(env)
	if err != nil {
		return err
	}

	life := &life{work: p.Work, backend: p.Backend}
	var hostGone <-chan struct{}
	if env.lifeline != 0 {
		if hostGone, err = watchLifeline(env.lifeline); err != nil {
			return err
		}
	}
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	// When the host is gone, nobody reads our standard error: what is logged
	// while work is finished must not end us. A handler, unlike an ignored
	// signal, is not inherited by children.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	var keeper *keeper
	if env.orphanTTL != 0 {
		keeper = newKeeper(env.instanceDir, env.orphanTTL)
	}
	go func() {
		if keeper != nil {
			keeper.run(hostGone, terminate)
		} else {
			select {
			case <-hostGone:
			case <-terminate:
			}
		}
		life.end()
	}()

	setup := newSetup(p.Config)
	if p.Backend != nil {
		if err := p.Backend.Start(); err != nil {
			return err
		}
	}
	if env.port != 0 && p.HTTP != nil {
		// Before the handshake: a plugin that cannot have its port never
		// becomes ready.
		stop, err := serveHTTP(p, setup, env.port)
		if err != nil {
			return err
		}
		defer stop()
	}

	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         plugin.PluginSet{PluginName: &grpcPlugin{plugin: p, keeper: keeper, setup: setup}},
		TLSProvider:     func() (*tls.Config, error) { return tlsConf, nil },
		// It says why, when it cannot listen.
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr, JSONFormat: true}),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			// go-plugin has read its variables by now.
			forget()
			server := p.newServer(opts...)
			life.serving(server)
			return server
		},
	})

	// go-plugin returns without a word when it could not listen.
	if !life.served() {
		return errors.New("go-plugin could not open the plugin's socket")
	}
	return nil
}

// serveHTTP serves the plugin's own protocol on its port.
func serveHTTP(p Plugin, setup *setup, port int) (stop func(), err error) {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	handler, err := p.HTTP("http://" + addr)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot have the service's port: %w", err)
	}
	server := &http.Server{Handler: loopback.Protect(setup.guard(handler)), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() {
		// Not for those that only listen, as long as they like.
		ctx, cancel := context.WithTimeout(context.Background(), flushBound)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close()
		}
	}, nil
}

// life ends the plugin in order, for whichever reason comes first.
type life struct {
	work    *Work
	backend Backend // nil if there is none
	once    sync.Once
	server  atomic.Pointer[grpc.Server]
}

func (l *life) serving(s *grpc.Server) { l.server.Store(s) }

func (l *life) served() bool { return l.server.Load() != nil }

// end finishes what is in flight, within bounds, and stops the server, upon
// which go-plugin removes the socket and returns to serve.
func (l *life) end() {
	l.once.Do(func() {
		server := l.server.Load()
		ctx, cancel := context.WithTimeout(context.Background(), drainBound)
		defer cancel()
		if server == nil {
			l.stopBackend(ctx)
			// Nothing was promised yet, and the host removes the instance's
			// directory.
			os.Exit(1)
		}
		busy := !l.work.Idle()
		_ = l.work.Drain(ctx)
		l.stopBackend(ctx)
		if busy {
			// The host's own streams are for ever, so this takes the bound.
			go func() {
				for range flushParts {
					<-time.After(flushBound / flushParts)
				}
				server.Stop()
			}()
			server.GracefulStop()
		}
		server.Stop()
	})
}

func (l *life) stopBackend(ctx context.Context) {
	if l.backend != nil {
		l.backend.Stop(ctx)
	}
}
