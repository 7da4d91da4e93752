package relay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/plughost/plughost/shared/wire"
)

// codeUnavailable is the JSON-RPC error of a call that a service cannot take,
// in the range left to implementations.
const codeUnavailable = -32000

// refusal is an error with a code of JSON-RPC.
type refusal struct {
	code   int
	reason string
	data   any // nil for none
}

func refusef(code int, format string, args ...any) error {
	return &refusal{code: code, reason: fmt.Sprintf(format, args...)}
}

func (r *refusal) Error() string { return r.reason }

// codeOf is the code of why a request is not carried out.
func codeOf(err error) int {
	var refused *refusal
	var wrong *wire.Error
	switch {
	case errors.As(err, &refused):
		return refused.code
	case errors.As(err, &wrong):
		return wrong.Code
	default:
		return codeUnavailable
	}
}

// errorMessage makes a response that is an error.
func errorMessage(id []byte, why error) []byte {
	if len(id) == 0 {
		id = []byte("null")
	}
	object := errorObject{Code: codeOf(why), Message: why.Error()}
	var refused *refusal
	if errors.As(why, &refused) {
		object.Data = refused.data
	}
	encoded, err := json.Marshal(object)
	if err != nil { // it holds nothing that could make it fail
		return nil
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, encoded)
}

type errorObject struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// writeError answers with an error of JSON-RPC.
func writeError(w http.ResponseWriter, status int, id []byte, why error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(errorMessage(id, why))
}

// writeRefusal answers a request that stands alone with an error. One that a
// service cannot take has the status 200, since clients drop what comes with
// those of a bad gateway.
func writeRefusal(w http.ResponseWriter, id []byte, why error) {
	writeError(w, cmp.Or(statusFor(codeOf(why)), http.StatusOK), id, why)
}
