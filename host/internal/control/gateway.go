package control

import (
	"net/http"
)

// gatewayPath is below which the gateway's endpoints are.
const gatewayPath = "/v1/gateway"

// HandleGateway has the server answer requests for the gateway's endpoints, for
// who runs the host. It is called before Serve.
func (s *Server) HandleGateway(gateway http.Handler) {
	s.mux.Handle(gatewayPath+"/", http.StripPrefix(gatewayPath, gateway))
}

// Gateway returns a client of the gateway's endpoints, and the URL that is
// before their paths. It takes no token: whoever may open the host's socket may
// use all of them.
func (c *Client) Gateway() (*http.Client, string) {
	return &c.http, "http://plughost" + gatewayPath
}
