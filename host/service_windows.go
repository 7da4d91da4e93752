package main

import (
	"context"
	"errors"
	"sync"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/windows/svc"
)

// errServiceStopped is why a host ends that the service control manager stops.
var errServiceStopped = errors.New("the service control manager stops the host")

// service is a host that Windows runs as a service.
type service struct {
	stop  context.CancelCauseFunc
	ended <-chan struct{}
}

// Execute implements svc.Handler.
func (s service) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (specific bool, code uint32) {
	const accepts = svc.AcceptStop | svc.AcceptShutdown
	status <- svc.Status{State: svc.Running, Accepts: accepts}
	for {
		select {
		case request := <-requests:
			switch request.Cmd {
			case svc.Interrogate:
				status <- request.CurrentStatus
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending}
				s.stop(errServiceStopped)
			}
		case <-s.ended:
			return false, 0
		}
	}
}

// underServiceManager has the service control manager, if it started this
// process, know the host and end the context that is returned. ended is called
// when the host has ended.
func underServiceManager(stop context.Context, log hclog.Logger) (managed context.Context, ended func()) {
	if is, err := svc.IsWindowsService(); err != nil || !is {
		return stop, func() {}
	}
	managed, cancel := context.WithCancelCause(stop)
	end := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		// A service of its own process is found under whatever name.
		if err := svc.Run("", service{cancel, end}); err != nil {
			log.Error("the service control manager cannot be answered", "error", err)
		}
	})
	return managed, func() {
		close(end)
		running.Wait()
	}
}
