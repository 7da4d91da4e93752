package agents

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/plughost/plughost/shared/a2ahttp"
)

// urlKey finds the agent's URL, as its client wrote it, in a request's context.
type urlKey struct{}

func withURL(ctx context.Context, url string) context.Context {
	return context.WithValue(ctx, urlKey{}, url)
}

func urlOf(ctx context.Context) string {
	url, _ := ctx.Value(urlKey{}).(string)
	return url
}

// Address is where clients reach the gateway.
type Address struct{ configured atomic.Value }

// Set has clients be told a URL, of scheme and host, or the one that each of
// them uses if it is empty.
func (a *Address) Set(url string) { a.configured.Store(url) }

// of is the URL for the client of a request. What proxies say in headers of
// their own (Forwarded, X-Forwarded-*) is not believed, since any client can say
// it too.
func (a *Address) of(r *http.Request) string {
	if url, _ := a.configured.Load().(string); url != "" {
		return url
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// readCard reads a card as an agent describes itself.
func readCard(encoded []byte) (*a2a.AgentCard, error) {
	var card *a2a.AgentCard
	if err := json.Unmarshal(encoded, &card); err != nil {
		return nil, err
	}
	if card == nil {
		return nil, errors.New("the card is null")
	}
	return card, nil
}

// bearerScheme names the security scheme of the gateway's tokens in cards.
const bearerScheme = "bearer"

// shown is a card as a client of the gateway sees it. How the agent itself knows
// its clients does not matter to them: what they show is for the gateway.
func (f *Front) shown(ctx context.Context, card *a2a.AgentCard, url string) *a2a.AgentCard {
	card = a2ahttp.Readdress(card, url)
	card.Capabilities.PushNotifications = f.pushes.supported()
	card.SecuritySchemes, card.SecurityRequirements = nil, nil
	if ownerOf(ctx) != "" {
		card.SecuritySchemes = a2a.NamedSecuritySchemes{bearerScheme: a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
		card.SecurityRequirements = a2a.SecurityRequirementsOptions{{bearerScheme: a2a.SecuritySchemeScopes{}}}
	}
	return card
}

// currentCard is the agent's card, if it can be called.
func (f *Front) currentCard(r *http.Request) (*a2a.AgentCard, error) {
	if _, err := f.current(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shown(r.Context(), f.card, urlOf(r.Context())), nil
}
