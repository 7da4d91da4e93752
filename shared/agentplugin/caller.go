package agentplugin

import (
	"context"
	"net/http"

	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/plughost/plughost/shared"
)

// callers has the SDK know who makes a request, by what the host says.
type callers struct {
	a2asrv.PassthroughCallInterceptor
}

func (callers) Before(ctx context.Context, call *a2asrv.CallContext, _ *a2asrv.Request) (context.Context, any, error) {
	if names, _ := call.ServiceParams().Get(shared.CallerMetadata); len(names) == 1 && names[0] != "" {
		call.User = a2asrv.NewAuthenticatedUser(names[0], nil)
	}
	return ctx, nil, nil
}

// withoutCaller serves requests that do not come from the host, and cannot say
// who makes them.
func withoutCaller(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del(shared.CallerMetadata)
		next.ServeHTTP(w, r)
	})
}

// caller is whose tasks a request is about. Who was not authenticated shares
// them with all others: the SDK's own default lists none.
func caller(ctx context.Context) (string, error) {
	name, err := a2asrv.NewTaskStoreAuthenticator()(ctx)
	if err == nil && name == "" {
		name = "(anyone)" // which no token can be called
	}
	return name, err
}
