// Package idleconn tests what HTTP clients do with connections that are idle.
package idleconn

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Closes checks that the client that newClient makes for a server closes an idle
// connection by itself: the server might when the next request is on its way.
func Closes(t *testing.T, newClient func(url string) *http.Client) {
	t.Helper()
	closed := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	server.Start()
	defer server.Close()
	response, err := newClient(server.URL).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		t.Error("it is kept")
	}
}
