package a2ahttp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// byVersion serves the JSON-RPC binding of two versions of A2A at one URL: by
// the version that a request names, or else by its method, since those of 0.3
// have a slash in their names and later ones have not. (The specification has
// a request without a version be one of 0.3. No client of 0.3 can tell the
// difference.)
func byVersion(current, legacy http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ofLegacy, err := callsLegacy(r)
		switch {
		case err != nil:
			refuseBody(w, err)
		case ofLegacy:
			legacy.ServeHTTP(w, r)
		default:
			current.ServeHTTP(w, r)
		}
	})
}

// callsLegacy reports whether a request is one of 0.3. Its body can still be
// read.
func callsLegacy(r *http.Request) (bool, error) {
	if version := r.Header.Get(a2a.SvcParamVersion); version != "" {
		return isLegacy(version), nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return strings.Contains(methodOf(body), "/"), nil
}

// methodOf is the method of a JSON-RPC request, or nothing: what is wrong with
// a request is told by who serves it.
func methodOf(body []byte) string {
	var request struct {
		Method string `json:"method"`
	}
	_ = json.Unmarshal(body, &request)
	return request.Method
}

func isLegacy(version string) bool { return strings.HasPrefix(version, "0.") }

func isCurrent(version string) bool { return version == "1" || strings.HasPrefix(version, "1.") }

// versions refuses requests of versions that are not served.
type versions struct {
	a2asrv.PassthroughCallInterceptor
}

func (versions) Before(ctx context.Context, call *a2asrv.CallContext, _ *a2asrv.Request) (context.Context, any, error) {
	named, _ := call.ServiceParams().Get(a2a.SvcParamVersion)
	for _, version := range named {
		if version != "" && !isCurrent(version) && !isLegacy(version) {
			return ctx, nil, a2a.NewError(a2a.ErrVersionNotSupported,
				fmt.Sprintf("A2A %s is not served here: %s and %s are", version, a2a.Version, a2av0.Version))
		}
	}
	return ctx, nil, nil
}
