package relay

import (
	"net/http"
	"testing"

	"github.com/plughost/plughost/shared/wire"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTracePassesInMeta(t *testing.T) {
	const in = `"traceparent":"` + parent + `"`
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"m"} `:                                     `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{` + in + `}}} `,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{ }}`:                         `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{` + in + `} }}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}`:                     `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{` + in + `},"a":1}}`,
		`{"params":{"a":1,"_meta":{}},"jsonrpc":"2.0","id":1,"method":"m"}`:          `{"params":{"a":1,"_meta":{` + in + `}},"jsonrpc":"2.0","id":1,"method":"m"}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"b":2.50}}}`:        `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{` + in + `,"b":2.50}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"traceparent":1}}}`: `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"traceparent":1}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`:                         `{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":null}}`:              `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":null}}`,
		`{"jsonrpc":"2.0","method":"m"}`:                                             `{"jsonrpc":"2.0","method":"m"}`,
	} {
		m, err := wire.Scan([]byte(message))
		if err != nil {
			t.Fatal(err)
		}
		if got := traced(m, http.Header{"Traceparent": {parent}}); string(got.Raw) != want {
			t.Errorf("%s becomes\n%s, want\n%s", message, got.Raw, want)
		}
	}
}

func TestTraceThatIsNoneDoesNotPass(t *testing.T) {
	const message = `{"jsonrpc":"2.0","id":1,"method":"m"}`
	m, err := wire.Scan([]byte(message))
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range []http.Header{nil, {"Traceparent": {"x"}}, {"Tracestate": {"a=b"}}, {"Traceparent": {parent + "\"},\"a"}}} {
		if got := traced(m, header); string(got.Raw) != message {
			t.Errorf("with %v it becomes %s", header, got.Raw)
		}
	}
}
