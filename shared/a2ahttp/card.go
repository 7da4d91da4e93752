package a2ahttp

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// Readdress returns a copy of a card for an agent that Handler serves at url.
// Signatures are not copied: they are of another content.
func Readdress(card *a2a.AgentCard, url string) *a2a.AgentCard {
	served := *card
	served.Signatures = nil
	served.SupportedInterfaces = nil
	for _, version := range []a2a.ProtocolVersion{a2a.Version, a2av0.Version} {
		for _, binding := range []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON} {
			served.SupportedInterfaces = append(served.SupportedInterfaces,
				&a2a.AgentInterface{URL: url, ProtocolBinding: binding, ProtocolVersion: version})
		}
	}
	return &served
}

// EncodeCard writes a card that Readdress made, so that clients of both
// versions can read it.
func EncodeCard(card *a2a.AgentCard) (json.RawMessage, error) {
	producer, _ := a2av0.NewStaticAgentCardProducer(card).(a2asrv.AgentCardJSONProducer)
	return producer.CardJSON(context.Background())
}

func serveCard(w http.ResponseWriter, r *http.Request, get func(*http.Request) (*a2a.AgentCard, error)) {
	card, err := get(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	a2asrv.NewAgentCardHandler(a2av0.NewStaticAgentCardProducer(card)).ServeHTTP(w, r)
}
