package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/plughost/plughost/shared/resend"
)

// transports are the ways to speak with an agent, the best first. A version
// counts by how it begins.
var transports = []struct {
	binding a2a.TransportProtocol
	version string
	dial    func(address string, client *http.Client) (a2aclient.Transport, error)
}{
	{a2a.TransportProtocolJSONRPC, "1", func(address string, client *http.Client) (a2aclient.Transport, error) {
		return a2aclient.NewJSONRPCTransport(address, client), nil
	}},
	{a2a.TransportProtocolHTTPJSON, "1", func(address string, client *http.Client) (a2aclient.Transport, error) {
		u, err := url.Parse(address)
		if err != nil {
			return nil, err
		}
		return a2aclient.NewRESTTransport(u, client), nil
	}},
	{a2a.TransportProtocolJSONRPC, "0.3", func(address string, client *http.Client) (a2aclient.Transport, error) {
		return a2av0.NewJSONRPCTransport(a2av0.JSONRPCTransportConfig{URL: address, Client: client}), nil
	}},
	{a2a.TransportProtocolHTTPJSON, "0.3", func(address string, client *http.Client) (a2aclient.Transport, error) {
		return a2av0.NewRESTTransport(a2av0.RESTTransportConfig{URL: address, Client: client})
	}},
}

// newClient makes a client of one server, which sends it the headers.
func newClient(server *url.URL, headers map[string]string) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.IdleConnTimeout = resend.IdleTimeout
	return &http.Client{
		Transport:     &oneServer{server: server, headers: headers, next: &resend.Transport{Next: transport}},
		CheckRedirect: withItsMessage,
	}
}

// withItsMessage keeps a message from being dropped: some redirects make a GET of
// a POST.
func withItsMessage(request *http.Request, via []*http.Request) error {
	if request.Method != via[0].Method {
		return fmt.Errorf("it redirects with %s, upon which no message is sent again", request.Response.Status)
	}
	if len(via) > 3 {
		return errors.New("it redirects again and again")
	}
	return nil
}

// oneServer sends requests to one server alone, wherever a redirect leads.
type oneServer struct {
	server  *url.URL
	headers map[string]string
	next    *resend.Transport
}

func (o *oneServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if !sameServer(request.URL, o.server) {
		return nil, fmt.Errorf("it leads to %s, which is another server", request.URL.Host)
	}
	request = request.Clone(request.Context())
	for name, value := range o.headers {
		request.Header.Set(name, value)
	}
	response, err := o.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	bound(response, maxAnswer)
	return response, nil
}

// CloseIdleConnections is called by the method of http.Client.
func (o *oneServer) CloseIdleConnections() { o.next.CloseIdleConnections() }

func sameServer(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }
