package agents

import (
	"encoding/json"
	"net/http"

	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/plughost/plughost/shared/a2ahttp"
)

// CataloguePath is where the catalogue of all agents is served.
const CataloguePath = "/a2a/"

// catalogue lists agents.
type catalogue struct {
	Agents []entry `json:"agents"`
}

// entry is an agent in the catalogue. One that cannot be called has the reason,
// and the card that it had when it last could.
type entry struct {
	Name    string          `json:"name"`
	URL     string          `json:"url"`
	CardURL string          `json:"cardUrl"`
	Ready   bool            `json:"ready"`
	Reason  string          `json:"reason,omitempty"`
	Card    json.RawMessage `json:"card,omitempty"`
}

// ServeCatalogue answers with the catalogue of agents.
func ServeCatalogue(w http.ResponseWriter, r *http.Request, agents []*Front) {
	list := catalogue{Agents: []entry{}}
	for _, agent := range agents {
		list.Agents = append(list.Agents, agent.entry(r))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(list)
}

func (f *Front) entry(r *http.Request) entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	url := f.address.of(r) + Path(f.name)
	e := entry{
		Name:    f.name,
		URL:     url,
		CardURL: url + a2asrv.WellKnownAgentCardPath,
		Ready:   f.instance != nil,
		Reason:  f.why,
	}
	if f.card == nil {
		return e
	}
	card, err := a2ahttp.EncodeCard(f.shown(r.Context(), f.card, url))
	if err != nil {
		e.Reason = err.Error()
		return e
	}
	e.Card = card
	return e
}
