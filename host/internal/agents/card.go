package agents

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

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

// origin is the scheme and host by which the client reached the gateway. What
// proxies say in headers of their own (Forwarded, X-Forwarded-*) is not
// believed, since any client can say it too: a proxy passes on the Host.
func origin(r *http.Request) string {
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

// shown is a card as clients of the gateway see it.
func (f *Front) shown(card *a2a.AgentCard, url string) *a2a.AgentCard {
	card = a2ahttp.Readdress(card, url)
	card.Capabilities.PushNotifications = f.pushes.supported()
	return card
}

// currentCard is the agent's card, if it can be called.
func (f *Front) currentCard(r *http.Request) (*a2a.AgentCard, error) {
	if _, err := f.current(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shown(f.card, urlOf(r.Context())), nil
}
