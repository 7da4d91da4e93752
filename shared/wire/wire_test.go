package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/plughost/plughost/shared/wire"
)

func TestScan(t *testing.T) {
	tests := []struct {
		name, data string
		kind       wire.Kind
		method, id string
	}{
		{"a request", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":[1,{}]}}`, wire.Request, "tools/call", "1"},
		{"an id beyond a float stays as it is", `{"jsonrpc":"2.0","id":9007199254740993,"method":"m"}`, wire.Request, "m", "9007199254740993"},
		{"a fraction as id stays as it is", `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, wire.Request, "m", "1.5"},
		{"a string as id keeps its escapes", `{"jsonrpc":"2.0","id":"\u0031\"","method":"m"}`, wire.Request, "m", `"\u0031\""`},
		{"names and methods may have escapes", `{"jsonrpc":"2.0","i\u0064":-2,"\u006dethod":"tools\/call"}`, wire.Request, "tools/call", "-2"},
		{"a notification", "\t{ \"method\" : \"n\" ,\r\n \"jsonrpc\" : \"2.0\" } ", wire.Notification, "n", ""},
		{"a result", `{"jsonrpc":"2.0","result":null,"id":"a"}`, wire.Response, "", `"a"`},
		{"an error", `{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}`, wire.Response, "", "7"},
		{"an error of what had no id", `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`, wire.Response, "", "null"},
		{"an error without an id", `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}`, wire.Response, "", ""},
		{"members that nobody knows", `{"jsonrpc":"2.0","id":1,"method":"m","x":1,"x":2}`, wire.Request, "m", "1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := wire.Scan([]byte(test.data))
			if err != nil {
				t.Fatal(err)
			}
			if m.Kind != test.kind || string(m.Method) != test.method || string(m.Bytes(m.ID)) != test.id {
				t.Errorf("%v %q %q", m.Kind, m.Method, m.Bytes(m.ID))
			}
		})
	}
}

func TestScanRefuses(t *testing.T) {
	deep := strings.Repeat(`[`, 1000) + strings.Repeat(`]`, 1000)
	tests := []struct {
		name, data string
		code       int
		reason     string
	}{
		{"nothing", ``, wire.CodeParse, "object"},
		{"what is no object", `"x"`, wire.CodeParse, "object"},
		{"a batch", ` [{"jsonrpc":"2.0","method":"m"}]`, wire.CodeInvalidRequest, "batch"},
		{"a cut off message", `{"jsonrpc":"2.0","method":"m"`, wire.CodeParse, "closing brace"},
		{"two messages", `{"jsonrpc":"2.0","method":"m"}{}`, wire.CodeParse, "follows"},
		{"a fault deep inside", `{"jsonrpc":"2.0","method":"m","params":{"a":[1,{"b":tru}]}}`, wire.CodeParse, "value"},
		{"a control character", "{\"jsonrpc\":\"2.0\",\"method\":\"a\nb\"}", wire.CodeParse, "control"},
		{"an unknown escape", `{"jsonrpc":"2.0","method":"\x41"}`, wire.CodeParse, "escape"},
		{"too deep nesting", `{"jsonrpc":"2.0","method":"m","params":` + deep + `}`, wire.CodeParse, "deeper"},
		{"a method twice", `{"jsonrpc":"2.0","method":"a","method":"b"}`, wire.CodeInvalidRequest, "twice"},
		{"a method twice, once escaped", `{"jsonrpc":"2.0","method":"a","meth\u006fd":"b"}`, wire.CodeInvalidRequest, "twice"},
		{"a method in another case", `{"jsonrpc":"2.0","method":"a","Method":"b"}`, wire.CodeInvalidRequest, "like"},
		{"an id twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`, wire.CodeInvalidRequest, "twice"},
		{"parameters twice", `{"jsonrpc":"2.0","method":"a","params":{},"params":{}}`, wire.CodeInvalidRequest, "twice"},
		{"another version", `{"jsonrpc":"1.0","method":"a"}`, wire.CodeInvalidRequest, "jsonrpc"},
		{"no version", `{"method":"a"}`, wire.CodeInvalidRequest, "jsonrpc"},
		{"no method and no result", `{"jsonrpc":"2.0","id":1}`, wire.CodeInvalidRequest, "no"},
		{"a method and a result", `{"jsonrpc":"2.0","id":1,"method":"a","result":1}`, wire.CodeInvalidRequest, "both"},
		{"a result and an error", `{"jsonrpc":"2.0","id":1,"error":{},"result":1}`, wire.CodeInvalidRequest, "both"},
		{"a method that is no string", `{"jsonrpc":"2.0","id":1,"method":7}`, wire.CodeInvalidRequest, "method"},
		{"null as a request's id", `{"jsonrpc":"2.0","id":null,"method":"a"}`, wire.CodeInvalidRequest, "id"},
		{"an object as id", `{"jsonrpc":"2.0","id":{},"method":"a"}`, wire.CodeInvalidRequest, "id"},
		{"a result of nothing", `{"jsonrpc":"2.0","result":1}`, wire.CodeInvalidRequest, "id"},
		{"a result of null", `{"jsonrpc":"2.0","id":null,"result":1}`, wire.CodeInvalidRequest, "id"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := wire.Scan([]byte(test.data))
			var refused *wire.Error
			if !errors.As(err, &refused) {
				t.Fatalf("error %v", err)
			}
			if refused.Code != test.code || !strings.Contains(refused.Reason, test.reason) {
				t.Errorf("code %d, reason %q", refused.Code, refused.Reason)
			}
		})
	}
}

func TestParam(t *testing.T) {
	tests := []struct {
		name, data, want string
		wantErr          bool
	}{
		{"a request's token", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":{"_meta":1}, "_meta" : {"x":1, "progressToken" : "p"}}}`, `"p"`, false},
		{"a notification's token", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7}}`, "7", false},
		{"no token", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{}}}`, "", false},
		{"no parameters", `{"jsonrpc":"2.0","id":1,"method":"m"}`, "", false},
		{"parameters that are no object", `{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`, "", false},
		{"two of them", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{},"_meta":{}}}`, "", true},
		{"one in another case", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"ProgressToken":1}}}`, "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m, err := wire.Scan([]byte(test.data))
			if err != nil {
				t.Fatal(err)
			}
			at, err := m.ProgressToken()
			if string(m.Bytes(at)) != test.want || (err != nil) != test.wantErr {
				t.Errorf("%q, error %v", m.Bytes(at), err)
			}
		})
	}
}

func TestElements(t *testing.T) {
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[ {"name":"a"} , 7,[],"x"],"none":[],"not":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"tools": `{"name":"a"}|7|[]|"x"|`, "none": "", "not": "", "absent": ""} {
		at, err := m.Find(m.Result, name)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for element := range m.Elements(at) {
			got.Write(m.Bytes(element))
			got.WriteByte('|')
		}
		if got.String() != want {
			t.Errorf("%s: %s, want %s", name, &got, want)
		}
		for range m.Elements(at) {
			break // which is harmless
		}
	}
}

func TestReplace(t *testing.T) {
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"r","requestId":"mine"}}`))
	if err != nil {
		t.Fatal(err)
	}
	at, err := m.CancelledID()
	if err != nil {
		t.Fatal(err)
	}
	const want = `x{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"r","requestId":12}}`
	if got := m.Replace([]byte("x"), at, []byte("12")); string(got) != want {
		t.Errorf("%s", got)
	}
}

func TestWithKeepsTheEnvelope(t *testing.T) {
	for _, data := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":1,"name":"short"}}`,
		`{"params":{"name":"short","b":2},"method":"m","id":"x","jsonrpc":"2.0"}`,
	} {
		m, err := wire.Scan([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		at, err := m.Param("name")
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{`"a much longer one"`, `1`, `"other"`} {
			with := m.With(at, []byte(value))
			want, err := wire.Scan([]byte(strings.Replace(data, `"short"`, value, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(with, want) {
				t.Errorf("%s: %+v, want %+v", value, with, want)
			}
		}
	}
}

func TestPick(t *testing.T) {
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","method":"m","params":{"b":[1],"a":{"b":2},"twice":1,"twice":2}}`))
	if err != nil {
		t.Fatal(err)
	}
	picked, err := m.Pick(m.Params, "a", "none", "b")
	if err != nil || string(m.Bytes(picked[0])) != `{"b":2}` || picked[1].Found() || string(m.Bytes(picked[2])) != `[1]` {
		t.Errorf("%v, error %v", picked, err)
	}
	if _, err := m.Pick(m.Params, "a", "twice"); err == nil {
		t.Error("a member that is there twice was picked")
	}
	if picked, err := m.Pick(m.ID, "a"); err != nil || picked[0].Found() {
		t.Errorf("of nothing: %v, error %v", picked, err)
	}
}

func TestLine(t *testing.T) {
	plain := []byte(`{"a":"\n"}`)
	if got := wire.Line(plain); &got[0] != &plain[0] {
		t.Error("what is on one line was copied")
	}
	if got := wire.Line([]byte("{\r\n\"a\":\n1}\n")); string(got) != `{  "a": 1} ` {
		t.Errorf("%q", got)
	}
}

// FuzzScan compares with encoding/json: Scan accepts nothing that is not JSON,
// finds what a decoder finds, and takes no message for another one.
func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":"\u00e9"}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","result":{"a":[1.5e-7,-0,true,false,null,"\"\\\/"]},"id":"\ud800"}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}`))
	f.Add([]byte("{\"jsonrpc\":\"2.0\",\"m\xffthod\":\"x\",\"method\":\"\x80\"}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := wire.Scan(data)
		var refused *wire.Error
		switch {
		case err == nil:
		case !errors.As(err, &refused):
			t.Fatalf("error of type %T", err)
		case refused.Code == wire.CodeParse && json.Valid(data) && data[0] == '{' && !strings.Contains(refused.Reason, "deeper"):
			t.Fatalf("refused JSON: %v", err)
		}
		if err != nil {
			return
		}
		var decoded struct {
			ID, Params, Result, Error json.RawMessage
			Method                    string
		}
		if err := json.Unmarshal(data, &decoded); err != nil {
			t.Fatalf("accepted what cannot be decoded: %v", err)
		}
		for _, part := range []struct {
			at   wire.Span
			want json.RawMessage
		}{{m.ID, decoded.ID}, {m.Params, decoded.Params}, {m.Result, decoded.Result}, {m.Error, decoded.Error}} {
			if got := string(m.Bytes(part.at)); got != string(part.want) {
				t.Fatalf("got %q, want %q", got, part.want)
			}
		}
		if got := strings.ToValidUTF8(string(m.Method), "\ufffd"); got != strings.ToValidUTF8(decoded.Method, "\ufffd") &&
			!strings.Contains(decoded.Method, "\ufffd") {
			t.Fatalf("method %q, want %q", got, decoded.Method)
		}
		if _, err := m.ProgressToken(); err != nil && !errors.As(err, &refused) {
			t.Fatalf("error of type %T", err)
		}
		if m.ID.Found() {
			again, err := wire.Scan(m.Replace(nil, m.ID, []byte("5")))
			if err != nil || again.Kind != m.Kind || string(again.Bytes(again.ID)) != "5" {
				t.Fatalf("with another id: %v", err)
			}
			if with := m.With(m.ID, []byte("5")); !reflect.DeepEqual(with, again) {
				t.Fatalf("with another id: %+v, want %+v", with, again)
			}
		}
		if line := wire.Line(data); !json.Valid(line) || strings.ContainsAny(string(line), "\r\n") {
			t.Fatalf("%q is not one line of JSON", line)
		}
	})
}

var call = []byte(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"},"_meta":{"progressToken":"a"}}}`)

func TestScanAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _, _ = wire.Scan(call) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkScan(b *testing.B) {
	large := []byte(`{"jsonrpc":"2.0","id":12,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 5<<20) + `"}]}}`)
	for _, bench := range []struct {
		name string
		data []byte
	}{{"call", call}, {"5MB", large}} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bench.data)))
			for b.Loop() {
				_, _ = wire.Scan(bench.data)
			}
		})
		b.Run(bench.name+"/jsonrpc.DecodeMessage", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bench.data)))
			for b.Loop() {
				_, _ = jsonrpc.DecodeMessage(bench.data)
			}
		})
	}
}
