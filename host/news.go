package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/events"
	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/host/internal/metrics"
	"github.com/plughost/plughost/host/internal/reclaim"
	"github.com/plughost/plughost/host/internal/supervise"
	"github.com/plughost/plughost/shared/marker"
)

// keptEvents is how many events a host remembers.
const keptEvents = 1024

// news is how a host tells others than its logs what happens.
type news struct {
	log     hclog.Logger
	events  *events.Hub
	metrics *metrics.Metrics
}

func newNews(started time.Time, log hclog.Logger) *news {
	return &news{log: log, events: events.NewHub(started, keptEvents), metrics: metrics.New(version())}
}

// watch tells of a transition.
func (n *news) watch(change supervise.Change) {
	n.metrics.Watch(change)
	if change.State == supervise.Removed {
		n.metrics.Forget(change.Service)
	}
	n.tell(events.Transition(change))
}

func (n *news) tell(event events.Event) {
	n.metrics.Count(event)
	n.events.Publish(event)
}

func (n *news) started() {
	n.log.Info("the host has started", "version", version(), "pid", os.Getpid())
	n.tell(events.Event{Type: events.HostStarted, PID: os.Getpid(), Cause: "plughost " + version() + " has started"})
}

func (n *news) ready() {
	n.log.Info("every service is ready")
	n.tell(events.Event{Type: events.HostReady, PID: os.Getpid(), Cause: "every service is ready for the first time"})
}

func (n *news) stopping() {
	n.tell(events.Event{Type: events.HostStopping, PID: os.Getpid(), Cause: "the host was told to end, and stops its services"})
}

// adopted tells of an instance that was taken over.
func (n *news) adopted(service config.Ref, instance *launch.Instance) {
	n.log.Info("took over what an earlier host left running", "service", service,
		"instance", instance.ID(), "pid", instance.PID())
	n.tell(events.Event{
		Type: events.InstanceAdopted, Service: service.String(), Instance: instance.ID(), PID: instance.PID(),
		Cause: "it outlived the host that started it, and was taken over",
	})
}

// reloaded tells of a configuration that was taken.
func (n *news) reloaded(services, changes int) {
	n.log.Info("the configuration was read again", "services", services, "changes", changes)
	n.tell(events.Event{
		Type: events.ConfigReloaded, PID: os.Getpid(),
		Cause: fmt.Sprintf("the configuration was read again: %s, %s", count(services, "service"), count(changes, "change")),
	})
}

func (n *news) registryMoved(to string, why error) {
	n.tell(events.Event{
		Type: events.RegistryMoved, Error: why.Error(),
		Cause: "the registry could not be read and was moved to " + to + "; children are found by their marker",
	})
}

// reclaimed tells of each finding of a report.
func (n *news) reclaimed(report reclaim.Report) {
	for _, s := range report.Stopped {
		n.orphan(s)
	}
	for _, record := range report.Foreign {
		n.tell(events.Event{
			Type: events.ProcessLeftAlone, Service: ownerOf(record.Identity), Instance: record.Identity.Instance, PID: record.PID,
			Cause: "the recorded process is gone, and its pid is another's now",
		})
	}
	for _, u := range report.Unknown {
		id := u.Record.Identity
		n.tell(events.Event{
			Type: events.ProcessLeftAlone, Service: ownerOf(id), Instance: id.Instance, PID: u.Record.PID,
			Cause: "the recorded process could not be identified: " + u.Reason,
		})
	}
	for _, failure := range report.Failures {
		n.tell(events.Event{
			Type: events.ReclaimFailed, Error: failure.Error(),
			Cause: "something that an earlier host left is still there",
		})
	}
}

// orphan tells of an instance of which something was left, and ended.
func (n *news) orphan(s reclaim.Stopped) {
	event := events.Event{
		Type: events.OrphanReclaimed, Service: ownerOf(s.Identity), Instance: s.Identity.Instance, PID: s.PID,
		Proof: s.Result.Proof.By, Count: uint64(len(s.Result.Swept)),
	}
	if s.PID == 0 {
		event.Proof = "marker" // by which a sweep finds them
	} else {
		event.Count++
	}
	event.Cause = fmt.Sprintf("%s left of an instance ended, proven by %s", count(int(event.Count), "process"), event.Proof)
	n.tell(event)
}

// startRefused tells of a start that failed since the port is a stranger's.
func (n *news) startRefused(service config.Ref, err error) {
	var held *reclaim.PortHeldError
	if !errors.As(err, &held) {
		return
	}
	n.metrics.PortHeld(service)
	event := events.Event{Type: events.PortHeld, Service: service.String(), Port: held.Port, Cause: held.Error()}
	if len(held.Holders) > 0 {
		event.PID = held.Holders[0].PID
	}
	n.tell(event)
}

// ownerOf is the service of a marker, as events name it.
func ownerOf(id marker.Identity) string { return serviceOf(id).String() }
