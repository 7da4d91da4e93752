package tunnel

import (
	"bytes"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// FuzzDecode compares with the SDK's decoder, which it replaces: what is
// accepted means the same, but for members that are there twice.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"name":"x"}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a\u0062","result":{"content":[]}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":-1,"error":{"code":-32602,"message":"no","data":[1]}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := decode(data)
		if err != nil || !utf8.Valid(data) {
			return
		}
		want, err := jsonrpc.DecodeMessage(data)
		if err != nil {
			t.Skip() // such as an error whose code is no number
		}
		gotBytes, gotErr := jsonrpc.EncodeMessage(got)
		wantBytes, wantErr := jsonrpc.EncodeMessage(want)
		if !bytes.Equal(gotBytes, wantBytes) || (gotErr == nil) != (wantErr == nil) {
			t.Errorf("%s, error %v; want %s, error %v", gotBytes, gotErr, wantBytes, wantErr)
		}
	})
}

func TestEncodeIsTheSDKs(t *testing.T) {
	number, _ := jsonrpc.MakeID(7.0)
	text, _ := jsonrpc.MakeID("a")
	for _, message := range []jsonrpc.Message{
		&jsonrpc.Response{ID: number, Result: []byte(`{"content":[{"type":"text","text":"\u003cb>"}]}`)},
		&jsonrpc.Response{ID: text, Result: []byte(`{}`)},
		&jsonrpc.Response{ID: number, Error: errors.New("no")},
		&jsonrpc.Response{ID: number},
		&jsonrpc.Request{ID: number, Method: "ping"},
	} {
		got, err := encode(message)
		if err != nil {
			t.Fatal(err)
		}
		want, err := jsonrpc.EncodeMessage(message)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
