package gateway

import (
	"encoding/json"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/relay"
	"github.com/plughost/plughost/shared/calldepth"
	"github.com/plughost/plughost/shared/wire"
)

// toolsOnly are the grants of an agent, which has no prompts and resources. They
// are compared by their address.
type toolsOnly struct{ config.Tools }

func (*toolsOnly) Restricted() bool                 { return true }
func (*toolsOnly) Service(string) bool              { return false }
func (t *toolsOnly) Reaches(service string) bool    { return t.Reach(service) }
func (t *toolsOnly) Tool(service, tool string) bool { return t.Grants(service, tool) }

// checkCall has a call of a tool that the agent was not granted be logged, before
// it is refused like that of one which does not exist; one in too long a chain of
// agents is refused; others go on one deeper.
func (a *agent) checkCall(m *wire.Message) (*wire.Message, error) {
	if string(m.Method) != "tools/call" {
		return m, nil
	}
	at, err := m.Param("name")
	if err != nil {
		return nil, err
	}
	name, _ := wire.Text(m.Bytes(at))
	if !a.joined.Shows(a.granted(), string(name)) {
		a.log.Warn("the agent called a tool that it was not granted, or that there is not", "tool", string(name))
		return m, nil
	}
	deeper, err := deeper(m)
	if err != nil {
		a.log.Warn("a call of the agent was refused", "tool", string(name), "reason", err)
	}
	return deeper, err
}

// deeper is a request one deeper in a chain of agents.
func deeper(m *wire.Message) (*wire.Message, error) {
	at, err := m.Param("_meta", calldepth.Key)
	if err != nil {
		return nil, err
	}
	meta := make(map[string]any)
	if at.Found() {
		var depth any
		if err := json.Unmarshal(m.Bytes(at), &depth); err != nil {
			return nil, err
		}
		meta[calldepth.Key] = depth
	}
	if meta, err = calldepth.Deeper(meta); err != nil {
		return nil, err
	}
	if at.Found() {
		depth, err := json.Marshal(meta[calldepth.Key])
		if err != nil {
			return nil, err
		}
		with := m.With(at, depth)
		return &with, nil
	}
	with, err := relay.WithMeta(m, meta)
	if err != nil {
		return nil, err
	}
	return &with, nil
}
