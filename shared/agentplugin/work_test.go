package agentplugin

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/shared"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// executor is an author's: it finds its tools wherever it is called.
type executor struct {
	begun, end chan struct{} // hold up Execute, if not nil
	errs       []error       // of Tools, call by call
	cleaned    bool
}

func (e *executor) find(ctx context.Context) {
	_, err := Tools(ctx)
	e.errs = append(e.errs, err)
}

func (e *executor) Execute(ctx context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		e.find(ctx)
		if e.begun != nil {
			e.begun <- struct{}{}
			<-e.end
		}
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("done")), nil)
	}
}

func (e *executor) Cancel(ctx context.Context, _ *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(func(a2a.Event, error) bool) { e.find(ctx) }
}

func (e *executor) Cleanup(ctx context.Context, _ *a2asrv.ExecutorContext, _ a2a.SendMessageResult, _ error) {
	e.find(ctx)
	e.cleaned = true
}

func TestToolsWorkInAllContextsOfTheExecutor(t *testing.T) {
	author := &executor{}
	tools := newTools()
	tools.set(&mcp.ClientSession{})
	h := &hosted{executor: author, work: &shared.Work{}, tools: tools}
	for _, err := range h.Execute(t.Context(), nil) {
		if err != nil {
			t.Error(err)
		}
	}
	for _, err := range h.Cancel(t.Context(), nil) {
		if err != nil {
			t.Error(err)
		}
	}
	h.Cleanup(t.Context(), nil, nil, nil)
	if len(author.errs) != 3 || errors.Join(author.errs...) != nil || !author.cleaned {
		t.Errorf("errors %v, cleaned %v", author.errs, author.cleaned)
	}
}

func TestExecutionIsRefusedWhileDraining(t *testing.T) {
	author := &executor{}
	h := &hosted{executor: author, work: &shared.Work{}, tools: newTools()}
	if err := h.work.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for event, err := range h.Execute(t.Context(), nil) {
		if event != nil || !errors.Is(err, a2a.ErrServerError) || !strings.Contains(err.Error(), "shutting down") {
			t.Errorf("event %v, error %v", event, err)
		}
	}
	if len(author.errs) > 0 {
		t.Error("it was executed")
	}
}

func TestExecutionThatIsAbandonedIsNoWorkAnyMore(t *testing.T) {
	tools := newTools()
	tools.set(&mcp.ClientSession{})
	h := &hosted{executor: &executor{}, work: &shared.Work{}, tools: tools}
	for _, err := range h.Execute(t.Context(), nil) {
		if err != nil || h.work.Idle() {
			t.Errorf("error %v, idle %v", err, h.work.Idle())
		}
		break
	}
	if !h.work.Idle() {
		t.Error("an execution that was abandoned is still work")
	}
}

func TestRequestIsWorkUntilItsAnswerWasSent(t *testing.T) {
	author := &executor{begun: make(chan struct{}), end: make(chan struct{})}
	work, tools := &shared.Work{}, newTools()
	tools.set(&mcp.ClientSession{})
	handler := newHandler(&hosted{executor: author, work: work, tools: tools}, nil)
	conn := serveGRPC(t, func(s *grpc.Server) {
		a2agrpc.NewHandler(handler).RegisterWith(s)
		plughostv1.RegisterHostServer(s, tools)
	}, grpc.StatsHandler(&counter{work: work}))
	client := a2agrpc.NewGRPCTransportFromClient(a2apb.NewA2AServiceClient(conn))

	// Neither the tools nor what is no request are work.
	hostStream(t, conn, "host")
	unknown := "/" + a2apb.A2AService_ServiceDesc.ServiceName + "/Unknown"
	if err := conn.Invoke(t.Context(), unknown, &a2apb.CancelTaskRequest{}, &a2apb.Task{}); err == nil {
		t.Error("an unknown method was answered")
	}
	if !work.Idle() {
		t.Fatal("there is work before the first request")
	}

	answered := make(chan error, 1)
	go func() {
		message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("go"))
		_, err := client.SendMessage(t.Context(), nil, &a2a.SendMessageRequest{Message: message})
		answered <- err
	}()
	<-author.begun
	drained := make(chan error, 1)
	go func() { drained <- work.Drain(t.Context()) }()
	for !work.Draining() {
		runtime.Gosched()
	}
	if work.Idle() {
		t.Error("a request is no work")
	}
	author.end <- struct{}{}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

func TestAuthorsLoggerReplacesOurs(t *testing.T) {
	var buffer bytes.Buffer
	opts := []a2asrv.RequestHandlerOption{a2asrv.WithLogger(slog.New(slog.NewTextHandler(&buffer, nil)))}
	handler := newHandler(&hosted{executor: &executor{}, work: &shared.Work{}, tools: newTools()}, opts)
	intercepted, ok := handler.(*a2asrv.InterceptedHandler)
	if !ok {
		t.Fatalf("the handler is a %T", handler)
	}
	intercepted.Logger.Info("here")
	if !strings.Contains(buffer.String(), "here") {
		t.Error("the author's logger is not used")
	}
	intercepted, _ = newHandler(&hosted{}, nil).(*a2asrv.InterceptedHandler)
	if _, ok := intercepted.Logger.Handler().(*slog.JSONHandler); !ok {
		t.Errorf("the log is a %T", intercepted.Logger.Handler())
	}
}
