package gateway

import (
	"fmt"
	"net/http"

	"github.com/plughost/plughost/host/internal/caller"
)

// forbid answers a request for what its caller may not reach, whether it is
// there or not.
func forbid(w http.ResponseWriter, c caller.Caller, what string) {
	http.Error(w, fmt.Sprintf("forbidden: the token %q does not allow to reach %s", c.Name, what), http.StatusForbidden)
}
