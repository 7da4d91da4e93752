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

// A trace is added to a message, and nothing else of it is changed.
func FuzzTraced(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"a":1},"b":2}}`))
	f.Add([]byte(` {"params" : { } , "jsonrpc":"2.0","id":"x","method":"m"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := wire.Scan(data)
		if err != nil {
			return
		}
		got := traced(m, http.Header{"Traceparent": {parent}, "Baggage": {string(data)}})
		again, err := wire.Scan(got.Raw)
		if err != nil {
			t.Fatalf("%q becomes %q: %v", data, got.Raw, err)
		}
		if string(again.Bytes(again.ID)) != string(m.Bytes(m.ID)) || string(again.Method) != string(m.Method) || again.Kind != m.Kind {
			t.Errorf("%q becomes %q", data, got.Raw)
		}
		if len(got.Raw) == len(data) {
			return
		}
		at, err := again.Param("_meta", "traceparent")
		if text, ok := wire.Text(again.Bytes(at)); err != nil || !ok || string(text) != parent {
			t.Errorf("%q becomes %q, which has no trace: %v", data, got.Raw, err)
		}
	})
}
