package shared

import (
	"context"
	"errors"
	"math"
	"runtime/debug"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// modulePath is looked up in the plugin's build information to name the SDK
// that it was built with.
const modulePath = "github.com/plughost/plughost"

// Plugins returns the set of plugins that a host asks go-plugin for. What is
// dispensed under PluginName is the plugin's *grpc.ClientConn, over which all
// of shared/proto is spoken.
func Plugins() plugin.PluginSet {
	return plugin.PluginSet{PluginName: &grpcPlugin{}}
}

// window is how many bytes of a stream, and of a connection, may be on the way
// to a peer. It is fixed: to find out what a link can take gRPC would send a
// ping with nearly each message, and it is the same machine.
const window = 1 << 20

// DialOptions are how a host connects to a plugin.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
	}
}

// newServer makes the server of a plugin, whose peer is the host: it bounds what
// it sends.
func (p Plugin) newServer(opts ...grpc.ServerOption) *grpc.Server {
	opts = append(opts,
		grpc.MaxRecvMsgSize(math.MaxInt32),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
	)
	return grpc.NewServer(append(opts, p.Options...)...)
}

// grpcPlugin is both ends of go-plugin's idea of a plugin.
type grpcPlugin struct {
	plugin.NetRPCUnsupportedPlugin
	plugin Plugin
	keeper *keeper // nil if it ends with its host
	setup  *setup
}

// GRPCServer registers the plugin's services. The broker is not used: after
// a reattach it is dead in both directions.
func (g *grpcPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	plughostv1.RegisterPluginServer(s, &pluginServer{plugin: g.plugin, keeper: g.keeper, setup: g.setup})
	g.plugin.Register(s)
	return nil
}

func (g *grpcPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// pluginServer answers for the plugin's life.
type pluginServer struct {
	plughostv1.UnimplementedPluginServer
	plugin Plugin
	keeper *keeper
	setup  *setup
}

func (s *pluginServer) Describe(context.Context, *plughostv1.DescribeRequest) (*plughostv1.DescribeResponse, error) {
	if s.keeper != nil {
		s.keeper.known.Store(true)
	}
	d := s.plugin.Describe
	return &plughostv1.DescribeResponse{
		Kind:         d.GetKind(),
		Name:         d.GetName(),
		Version:      d.GetVersion(),
		AgentCard:    d.GetAgentCard(),
		Sdk:          sdkVersion(),
		ConfigSchema: s.setup.schema(),
	}, nil
}

func (s *pluginServer) Configure(_ context.Context, request *plughostv1.ConfigureRequest) (*plughostv1.ConfigureResponse, error) {
	faults, err := s.setup.configure(request.GetConfig())
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	response := &plughostv1.ConfigureResponse{}
	for _, fault := range faults {
		response.Faults = append(response.Faults, &plughostv1.ConfigFault{Path: fault.Path, Message: fault.Err.Error()})
	}
	return response, nil
}

func (s *pluginServer) Health(ctx context.Context, _ *plughostv1.HealthRequest) (*plughostv1.HealthResponse, error) {
	if s.plugin.Work.Draining() {
		return &plughostv1.HealthResponse{
			Status: plughostv1.HealthResponse_STATUS_DRAINING,
			Reason: "the plugin is finishing what it has begun",
		}, nil
	}
	if err := s.plugin.unable(ctx); err != nil {
		return &plughostv1.HealthResponse{Status: plughostv1.HealthResponse_STATUS_NOT_SERVING, Reason: err.Error()}, nil
	}
	return &plughostv1.HealthResponse{Status: plughostv1.HealthResponse_STATUS_SERVING}, nil
}

// unable says why the plugin cannot work now, or what is behind it.
func (p Plugin) unable(ctx context.Context) error {
	if p.Backend != nil {
		if err := p.Backend.Health(ctx); err != nil {
			return err
		}
	}
	if p.Health != nil {
		return p.Health(ctx)
	}
	return nil
}

func (s *pluginServer) Drain(ctx context.Context, _ *plughostv1.DrainRequest) (*plughostv1.DrainResponse, error) {
	err := s.plugin.Work.Drain(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, status.Error(codes.DeadlineExceeded, "work is still in flight")
	case err != nil:
		return nil, status.FromContextError(err).Err()
	}
	if s.plugin.Backend != nil {
		// In the time that is left of what the host gives, and before it
		// sends signals.
		s.plugin.Backend.Stop(ctx)
	}
	return &plughostv1.DrainResponse{}, nil
}

func (s *pluginServer) Adopt(ctx context.Context, request *plughostv1.AdoptRequest) (*plughostv1.AdoptResponse, error) {
	if s.keeper == nil {
		return nil, status.Error(codes.FailedPrecondition, "the plugin was told to end with its host")
	}
	return s.keeper.adopt(ctx, request)
}

// MainVersion is the version of the program's module, as go install and go build
// wrote it down, for what a plugin says of itself. It is empty if it is not known.
func MainVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}

func sdkVersion() string {
	const name = "plughost-go"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return name
	}
	if info.Main.Path == modulePath {
		return name + " " + info.Main.Version
	}
	for _, dep := range info.Deps {
		if dep.Path == modulePath {
			return name + " " + dep.Version
		}
	}
	return name
}
