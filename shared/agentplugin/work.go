package agentplugin

import (
	"context"
	"iter"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc/stats"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/calldepth"
)

// hosted is the author's executor under the host: Tools works in its contexts,
// and each execution is a piece of work, so that a plugin that is draining
// finishes its tasks and refuses new ones.
type hosted struct {
	executor a2asrv.AgentExecutor
	work     *shared.Work
	tools    *tools
}

func (h *hosted) Execute(ctx context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		end, ok := h.work.Begin()
		if !ok {
			yield(nil, a2a.NewError(a2a.ErrServerError, "the agent is shutting down"))
			return
		}
		defer end()
		h.executor.Execute(h.provide(ctx, execCtx), execCtx)(yield)
	}
}

func (h *hosted) Cancel(ctx context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return h.executor.Cancel(h.provide(ctx, execCtx), execCtx)
}

// Cleanup passes on to an executor that has something to clean up.
func (h *hosted) Cleanup(ctx context.Context, execCtx *a2asrv.ExecutorContext, result a2a.SendMessageResult, err error) {
	if cleaner, ok := h.executor.(a2asrv.AgentExecutionCleaner); ok {
		cleaner.Cleanup(h.provide(ctx, execCtx), execCtx, result, err)
	}
}

// provide makes a context in which Tools finds the host's tools, and calls go on
// with the depth of the request. The host has checked that.
func (h *hosted) provide(ctx context.Context, execCtx *a2asrv.ExecutorContext) context.Context {
	return context.WithValue(calldepth.NewContext(ctx, depthOf(execCtx)), toolsKey{}, h.tools)
}

func depthOf(execCtx *a2asrv.ExecutorContext) int {
	if execCtx == nil {
		return 0
	}
	var ofMessage map[string]any
	if execCtx.Message != nil {
		ofMessage = execCtx.Message.Metadata
	}
	depth, err := calldepth.Of(execCtx.Metadata, ofMessage)
	if err != nil {
		return calldepth.Max
	}
	return depth
}

// counter makes each A2A request a piece of work until its answer was sent. An
// execution ends before, and the host, told that nothing is in flight, may end
// the plugin before the answer is out. It implements stats.Handler.
type counter struct{ work *shared.Work }

// request is what a request's context has of it.
type request struct{ end func() }

type requestKey struct{}

func (c *counter) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	if strings.HasPrefix(info.FullMethodName, "/"+a2apb.A2AService_ServiceDesc.ServiceName+"/") {
		return context.WithValue(ctx, requestKey{}, &request{})
	}
	return ctx
}

func (c *counter) HandleRPC(ctx context.Context, event stats.RPCStats) {
	r, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return
	}
	switch event.(type) {
	case *stats.Begin:
		// When draining, the execution is what is refused.
		if end, ok := c.work.Begin(); ok {
			r.end = end
		}
	case *stats.End:
		if r.end != nil {
			r.end()
		}
	}
}

func (c *counter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (c *counter) HandleConn(context.Context, stats.ConnStats) {}
