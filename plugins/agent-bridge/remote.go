package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/bridge"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

const (
	// minRetry and maxRetry bound the wait between two tries to find the agent.
	minRetry = 250 * time.Millisecond
	maxRetry = 30 * time.Second
	// maxCard bounds a card, in bytes.
	maxCard = 1 << 20
	// exitConfig is EX_CONFIG of sysexits.h. The host does not try again after
	// it.
	exitConfig = 78
)

// remote is an agent elsewhere. It implements shared.Backend.
type remote struct {
	card      *url.URL // where its card is
	client    *http.Client
	log       *log.Logger
	describe  *plughostv1.DescribeResponse
	transport a2aclient.Transport // from Start on
	life      context.Context
	cancel    context.CancelFunc
}

// newRemote makes a remote of an agent whose card is below address or, if that
// ends in .json, at it.
func newRemote(address string, headers map[string]string, logger *log.Logger) (*remote, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the address of the agent is no URL: %w", err)
	}
	card := u
	if path.Ext(u.Path) != ".json" {
		card = u.JoinPath(a2asrv.WellKnownAgentCardPath)
	}
	r := &remote{
		card:     card,
		client:   newClient(u, headers),
		log:      logger,
		describe: &plughostv1.DescribeResponse{Kind: plughostv1.Kind_KIND_AGENT, Name: bridge.AgentName, Version: shared.MainVersion()},
	}
	r.life, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// Start returns when the agent's card was read. It tries as long as it is let,
// unless the agent cannot be used as it is.
func (r *remote) Start() error {
	for wait := minRetry; ; wait = min(2*wait, maxRetry) {
		err := r.find(r.life)
		var unusable *unusableError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &unusable):
			return &shared.ExitError{Status: exitConfig, Err: err}
		}
		r.log.Printf("[WARN] trying again: %v", err)
		select {
		case <-time.After(wait):
		case <-r.life.Done():
			return r.life.Err()
		}
	}
}

// Health asks for the card again.
func (r *remote) Health(ctx context.Context) error {
	_, err := r.fetch(ctx)
	return err
}

// Stop ends what is under way.
func (r *remote) Stop(context.Context) {
	r.cancel()
	r.client.CloseIdleConnections()
}

// unusableError is why trying again is useless.
type unusableError struct{ why string }

func (e *unusableError) Error() string { return e.why }

// find reads the card, and chooses how to speak with the agent. What is no card
// may be a page that stands in for the agent a while.
func (r *remote) find(ctx context.Context) error {
	content, err := r.fetch(ctx)
	if err != nil {
		return err
	}
	card, err := readCard(content)
	if err != nil {
		return fmt.Errorf("what is at %s is no agent's card: %w", r.card, err)
	}
	if r.transport, err = r.choose(card); err != nil {
		return err
	}
	r.describe.AgentCard, err = json.Marshal(card)
	return err
}

// fetch reads the agent's card.
func (r *remote) fetch(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.card.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the agent's card cannot be read: %w", err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return io.ReadAll(io.LimitReader(response.Body, maxCard))
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, &unusableError{fmt.Sprintf("the agent at %s refuses who asks for its card (%s): are the headers right?", r.card.Host, response.Status)}
	default:
		return nil, fmt.Errorf("the agent's card at %s cannot be read: the server answered %s", r.card, response.Status)
	}
}

// readCard reads a card of A2A 1.0 or 0.3. One of 0.3 may leave out that its URL
// is of the JSON-RPC binding.
func readCard(content []byte) (*a2a.AgentCard, error) {
	card, err := a2av0.NewAgentCardParser()(content)
	if err != nil {
		return nil, err
	}
	var legacy struct {
		URL                string
		PreferredTransport string
	}
	if err := json.Unmarshal(content, &legacy); err != nil {
		return nil, err
	}
	if len(card.SupportedInterfaces) == 0 && legacy.URL != "" && legacy.PreferredTransport == "" {
		card.SupportedInterfaces = []*a2a.AgentInterface{
			{URL: legacy.URL, ProtocolBinding: a2a.TransportProtocolJSONRPC, ProtocolVersion: a2av0.Version},
		}
	}
	return card, nil
}

// choose makes the transport of the best of the card's interfaces that are on
// the same server as the card: what is configured for one is not for another.
func (r *remote) choose(card *a2a.AgentCard) (a2aclient.Transport, error) {
	var elsewhere []string
	for _, known := range transports {
		for _, i := range card.SupportedInterfaces {
			if i.ProtocolBinding != known.binding || !strings.HasPrefix(string(i.ProtocolVersion), known.version) {
				continue
			}
			if u, err := url.Parse(i.URL); err != nil || !sameServer(u, r.card) {
				elsewhere = append(elsewhere, i.URL)
				continue
			}
			return known.dial(i.URL, r.client)
		}
	}
	if len(elsewhere) > 0 {
		return nil, &unusableError{fmt.Sprintf("the agent's card at %s names other servers, %s: give the URL of one of them", r.card, strings.Join(elsewhere, ", "))}
	}
	return nil, &unusableError{fmt.Sprintf("the agent's card at %s has no interface of A2A 1.0 or 0.3 over JSON-RPC or HTTP+JSON", r.card)}
}
