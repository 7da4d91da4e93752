package gateway

import "time"

// CallObserver is told of the calls of tools. It does not block.
type CallObserver interface {
	// Called is told of a call that has ended, of a tool that a service offers.
	// What came of it is one of few words.
	Called(service, tool, outcome string, took time.Duration)
}

// ObserveCalls has calls be told of. It is called before Handler.
func (g *Gateway) ObserveCalls(o CallObserver) { g.common.calls = o }

// called tells of a call.
func (c *common) called(service, tool, outcome string, took time.Duration) {
	if c.calls != nil {
		c.calls.Called(service, tool, outcome, took)
	}
}

// Sessions counts the sessions of clients by the service of their endpoint; that
// of the endpoint that joins all is empty.
func (g *Gateway) Sessions() map[string]int {
	g.mu.RLock()
	defer g.mu.RUnlock()
	sessions := map[string]int{"": g.joined.Sessions()}
	for _, u := range g.services {
		sessions[u.name] = u.relay.Sessions()
	}
	return sessions
}
