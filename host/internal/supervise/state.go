package supervise

import (
	"time"

	"github.com/plughost/plughost/host/internal/config"
)

// State is where a service is in its life.
//
//	state     event                              next state
//	-----     -----                              ----------
//	stopped   start asked                        begins
//	          not in the configuration any more  removed
//	waiting   the last dependency is ready       starting
//	          stop asked                         stopped
//	starting  the instance is ready              ready
//	          the launch failed                  by the policy, or stopping if
//	                                             something is left
//	          stop asked                         stopping
//	ready     its process ended                  stopping
//	          a health check failed              unhealthy, or stopping if
//	                                             no more may fail
//	          stop or restart asked              stopping
//	          the host ends, and it is left      stopped
//	unhealthy a health check went well           ready
//	          all else                           as ready
//	stopping  all gone, after a stop             stopped
//	          all gone, and a start is wanted    begins
//	          all gone, after a failure          by the policy
//	          something is left                  failed
//	backoff   the delay is over, start asked     begins
//	          stop asked                         stopped
//	failed    start asked, nothing is left       begins
//	          stop asked, nothing is left        stopped
//	          either, or half a minute is over,
//	          and something is left              stopping
//
// To begin is starting, or waiting as long as a dependency is not ready, another
// service has not yet given up its port, or as many as may are starting. A
// service whose configuration was changed in a reload is stopping, if the change
// needs another process, and begins again; one that is not in the configuration
// any more goes on as after a stop. The
// restart policy chooses between backoff and failed, or stopped after an exit
// that needs no restart. While the host ends, whatever would start or try
// again is stopped instead.
type State string

// The states of a service.
const (
	Waiting  State = "waiting"  // it is wanted, and something must come first
	Starting State = "starting" // an instance is being launched
	Ready    State = "ready"    // the instance answers
	// Unhealthy is ready, but a health check failed.
	Unhealthy State = "unhealthy"
	Stopping  State = "stopping" // what is left of the instance is being ended
	Backoff   State = "backoff"  // it failed, and is started again after a delay
	Stopped   State = "stopped"  // nothing of it runs, and nobody wants it to
	// Failed is a service that failed and is not started again by itself, unless
	// what could not be ended of it can be in the end.
	Failed State = "failed"
	// Removed is told once of a service that is not in the configuration any
	// more, when nothing of it is left. It has no status from then on.
	Removed State = "removed"
)

// Status is a service's state as others see it.
type Status struct {
	Service config.Ref `json:"service"`
	State   State      `json:"state"`
	// Since is when it came into this state.
	Since time.Time `json:"since"`
	// Cause says why, for people; while it waits, for what.
	Cause    string `json:"cause,omitempty"`
	Instance string `json:"instance,omitempty"`
	PID      int    `json:"pid,omitempty"`
	Port     int    `json:"port,omitempty"`
	// Restarts counts the starts after the first.
	Restarts int `json:"restarts"`
	// HealthFailures counts the health checks that failed.
	HealthFailures int `json:"healthFailures,omitempty"`
	// NextTry is when a service in backoff is started again, Delay how long
	// that was when it came into this state.
	NextTry time.Time     `json:"nextTry,omitzero"`
	Delay   time.Duration `json:"-"`
	// LastError is the last failure, kept until the next start that was asked.
	LastError string `json:"lastError,omitempty"`
	// SecretCommand says that the command line of its process holds something
	// sensitive.
	SecretCommand bool `json:"secretCommand,omitempty"`
}

// Change is a transition of a service.
type Change struct {
	Status
	From State
	// Running is the instance, while the service is ready or unhealthy.
	Running Instance
}
