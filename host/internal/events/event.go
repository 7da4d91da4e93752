// Package events tells whoever wants to know what happens to a host and its
// services, as it happens and from a short memory of what happened before.
package events

import (
	"time"

	"github.com/plughost/plughost/host/internal/supervise"
)

// Type says what happened.
type Type string

// The types of events.
const (
	// HostStarted says that a host has begun to work.
	HostStarted Type = "host.started"
	// HostReady says that every service was ready for the first time.
	HostReady Type = "host.ready"
	// HostStopping says that the host was told to end.
	HostStopping Type = "host.stopping"
	// ServiceChanged is a transition of a service.
	ServiceChanged Type = "service.changed"
	// OrphanReclaimed says that something that was left of an instance of this
	// installation was found, proven and ended.
	OrphanReclaimed Type = "orphan.reclaimed"
	// InstanceAdopted says that an instance which outlived its host, as it was
	// told to, was taken over by the next one.
	InstanceAdopted Type = "instance.adopted"
	// ConfigReloaded says that the host has taken a configuration that was read
	// again.
	ConfigReloaded Type = "config.reloaded"
	// ReclaimFailed says that something of the installation could not be ended.
	ReclaimFailed Type = "reclaim.failed"
	// ProcessLeftAlone says that a process that a record names was not touched:
	// it is another's by now, or what it is could not be proven.
	ProcessLeftAlone Type = "process.left_alone"
	// PortHeld says that a port which a service wants is somebody else's, who
	// was left alone.
	PortHeld Type = "port.held"
	// RegistryMoved says that the registry could not be read and was moved
	// aside.
	RegistryMoved Type = "registry.moved"
	// Lost stands in the place of events that were forgotten before a
	// subscriber had read them.
	Lost Type = "events.lost"
)

// Event is something that happened. What does not apply to its type is zero.
type Event struct {
	// ID is the event's own and is to be compared for equality alone. The zero
	// value is that of no event.
	ID   string    `json:"id,omitempty"`
	Time time.Time `json:"time"`
	Type Type      `json:"type"`
	// Service is kind and name, as in mcp.clock.
	Service  string `json:"service,omitempty"`
	Instance string `json:"instance,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Port     int    `json:"port,omitempty"`
	// From and To are the states of a transition.
	From supervise.State `json:"from,omitempty"`
	To   supervise.State `json:"to,omitempty"`
	// Cause says why, or what exactly, for people.
	Cause string `json:"cause"`
	// Restarts counts the starts of the service after the first.
	Restarts int `json:"restarts,omitempty"`
	// NextTry is when a service in backoff is started again.
	NextTry time.Time `json:"nextTry,omitzero"`
	// Error is the service's last failure, or the failure that the event tells
	// of.
	Error string `json:"error,omitempty"`
	// Proof is what proved a reclaimed process to be the installation's:
	// "birth record" or "marker".
	Proof string `json:"proof,omitempty"`
	// Count is how many processes were ended, or how many events were lost.
	Count uint64 `json:"count,omitempty"`
}

// Transition is the event of a transition of a service.
func Transition(change supervise.Change) Event {
	return Event{
		Time:     change.Since,
		Type:     ServiceChanged,
		Service:  change.Service.String(),
		Instance: change.Instance,
		PID:      change.PID,
		Port:     change.Port,
		From:     change.From,
		To:       change.State,
		Cause:    change.Cause,
		Restarts: change.Restarts,
		NextTry:  change.NextTry,
		Error:    change.LastError,
	}
}
