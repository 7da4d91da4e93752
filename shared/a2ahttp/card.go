package a2ahttp

import (
	"context"
	"encoding/json"
	"maps"
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
	return bothVersions{card}.CardJSON(context.Background())
}

// bothVersions produces a card for clients of both versions.
type bothVersions struct{ card *a2a.AgentCard }

var _ a2asrv.AgentCardJSONProducer = bothVersions{}

func (b bothVersions) Card(context.Context) (*a2a.AgentCard, error) { return b.card, nil }

// CardJSON is what a2a-go makes of the card, with security schemes that clients
// of 1.0 can read: a2a-go's are only of 0.3, and its own clients refuse them.
func (b bothVersions) CardJSON(ctx context.Context) ([]byte, error) {
	producer, _ := a2av0.NewStaticAgentCardProducer(b.card).(a2asrv.AgentCardJSONProducer)
	encoded, err := producer.CardJSON(ctx)
	if err != nil || len(b.card.SecuritySchemes) == 0 {
		return encoded, err
	}
	var card map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &card); err != nil {
		return nil, err
	}
	current, err := json.Marshal(b.card.SecuritySchemes)
	if err != nil {
		return nil, err
	}
	if card["securitySchemes"], err = mergeSchemes(card["securitySchemes"], current); err != nil {
		return nil, err
	}
	return json.MarshalIndent(card, "", "  ")
}

// mergeSchemes gives each security scheme the members that it has in either.
func mergeSchemes(one, other json.RawMessage) (json.RawMessage, error) {
	var merged, more map[string]map[string]json.RawMessage
	if err := json.Unmarshal(one, &merged); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(other, &more); err != nil {
		return nil, err
	}
	for name, members := range more {
		maps.Copy(merged[name], members)
	}
	return json.Marshal(merged)
}

func serveCard(w http.ResponseWriter, r *http.Request, get func(*http.Request) (*a2a.AgentCard, error)) {
	card, err := get(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	a2asrv.NewAgentCardHandler(bothVersions{card}).ServeHTTP(w, r)
}
