package loopback_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/plughost/plughost/shared/loopback"
)

func TestProtect(t *testing.T) {
	handler := loopback.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	tests := []struct {
		name    string
		host    string
		origins []string
		want    int
	}{
		{"a program on localhost", "localhost:7433", nil, 200},
		{"an IPv4 loopback address", "127.0.0.1:7433", nil, 200},
		{"another address of 127/8", "127.8.9.1:7433", nil, 200},
		{"an IPv6 loopback address", "[::1]:7433", nil, 200},
		{"a host without a port", "localhost", nil, 200},
		{"an IPv6 host without a port", "[::1]", nil, 200},
		{"a page of this machine", "localhost:7433", []string{"http://localhost:6274"}, 200},
		{"a rebound name", "evil.example:7433", nil, 403},
		{"a name that begins like localhost", "localhost.evil.example", nil, 403},
		{"an address of the network", "192.0.2.1:7433", nil, 403},
		{"no host", "", nil, 403},
		{"a foreign page", "localhost:7433", []string{"https://evil.example"}, 403},
		{"a foreign page with localhost in its name", "localhost:7433", []string{"http://localhost.evil.example"}, 403},
		{"a foreign page with localhost as user", "localhost:7433", []string{"http://localhost@evil.example"}, 403},
		{"a null origin", "localhost:7433", []string{"null"}, 403},
		{"an empty origin", "localhost:7433", []string{""}, 403},
		{"two origins", "localhost:7433", []string{"http://localhost", "https://evil.example"}, 403},
		{"an extension's origin", "localhost:7433", []string{"chrome-extension://localhost"}, 403},
	}
	for _, test := range tests {
		for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS"} {
			t.Run(test.name+"/"+method, func(t *testing.T) {
				r := httptest.NewRequest(method, "/mcp", nil)
				r.Host = test.host
				for _, origin := range test.origins {
					r.Header.Add("Origin", origin)
				}
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != test.want {
					t.Errorf("status %d, want %d", w.Code, test.want)
				}
			})
		}
	}
}
