package agentplugin

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/a2ahttp"
)

func TestTasksAreTheirCallersAlone(t *testing.T) {
	handler := newHandler(&asker{}, nil)
	conn := serveGRPC(t, func(s *grpc.Server) { a2agrpc.NewHandler(handler).RegisterWith(s) })
	host := a2agrpc.NewGRPCTransportFromClient(a2apb.NewA2AServiceClient(conn))
	as := func(name string) a2aclient.ServiceParams {
		if name == "" {
			return nil
		}
		return a2aclient.ServiceParams{shared.CallerMetadata: {name}}
	}
	ids := make(map[string]a2a.TaskID)
	for _, name := range []string{"alice", "bob", ""} {
		result, err := host.SendMessage(t.Context(), as(name), &a2a.SendMessageRequest{
			Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("hi")),
		})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = result.TaskInfo().TaskID
	}
	for owner, id := range ids {
		for name := range ids {
			_, err := host.GetTask(t.Context(), as(name), &a2a.GetTaskRequest{ID: id})
			if (err == nil) != (name == owner) || err != nil && !errors.Is(err, a2a.ErrTaskNotFound) {
				t.Errorf("%q asks for a task of %q: error %v", name, owner, err)
			}
		}
		list, err := host.ListTasks(t.Context(), as(owner), &a2a.ListTasksRequest{})
		if err != nil || len(list.Tasks) != 1 || list.Tasks[0].ID != id {
			t.Errorf("%q lists %+v, error %v", owner, list, err)
		}
	}

	direct := httptest.NewServer(withoutCaller(a2ahttp.Handler(handler, nil)))
	defer direct.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, direct.URL+"/tasks/"+string(ids["alice"]), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(shared.CallerMetadata, "alice")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("who comes by the agent's own port says that they are alice: status %s", response.Status)
	}
}

// asker is an author's that asks back.
type asker struct{}

func (asker) Execute(_ context.Context, execCtx *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if yield(a2a.NewSubmittedTask(execCtx, execCtx.Message), nil) {
			yield(a2a.NewStatusUpdateEvent(execCtx, a2a.TaskStateInputRequired, nil), nil)
		}
	}
}

func (asker) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(func(a2a.Event, error) bool) {}
}
