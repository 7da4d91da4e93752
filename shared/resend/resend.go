// Package resend makes HTTP requests again of which nothing was sent.
//
// A server that ends, or has had enough of an idle connection, closes it while a
// request is about to be written to it. net/http repeats such a request only if
// its method is one that may be repeated, which POST is not, although no byte of
// it has left: what tells this case apart has no exported name.
package resend

import (
	"net/http"
	"time"
)

// IdleTimeout is for http.Transport's IdleConnTimeout, with servers of which it is
// not known when they close idle connections: many do after five seconds, such as
// those of Node.js unless it is a recent one (server.keepAliveTimeout). Of a request
// that is written at that moment nobody can say whether it was carried out.
const IdleTimeout = 4 * time.Second

// closedIdle is the text of what net/http's Transport returns when it found a
// connection closed before it was waiting for an answer on it. By then it has
// closed the connection itself, so that nothing could be written to it any more.
// What may have been written fails with another error.
const closedIdle = "http: server closed idle connection"

// Transport is an http.RoundTripper. It is for HTTP/1; of HTTP/2, net/http repeats
// by itself what the server says that it has not seen.
type Transport struct {
	// Next makes the requests. It is to be an *http.Transport, or to return the
	// errors of one as they are.
	Next http.RoundTripper
}

// RoundTrip makes a request, on another connection if the first one was closed
// before. A request whose body cannot be read again is made once. Each time one
// connection less is kept, so this ends.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	for {
		response, err := t.Next.RoundTrip(request)
		if err == nil || err.Error() != closedIdle {
			return response, err
		}
		if request.Body != nil && request.Body != http.NoBody {
			if request.GetBody == nil {
				return nil, err
			}
			again := *request // the caller's is not to be modified
			if again.Body, err = request.GetBody(); err != nil {
				return nil, err
			}
			request = &again
		}
	}
}

// CloseIdleConnections is called by the method of http.Client.
func (t *Transport) CloseIdleConnections() {
	if next, ok := t.Next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}
