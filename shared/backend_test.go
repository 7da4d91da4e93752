package shared

import (
	"context"
	"errors"
	"fmt"
	"testing"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// fakeBackend is unwell if it has a reason, and counts how often it is stopped.
type fakeBackend struct {
	unwell  error
	stopped int
}

func (b *fakeBackend) Start() error                 { return nil }
func (b *fakeBackend) Health(context.Context) error { return b.unwell }
func (b *fakeBackend) Stop(context.Context)         { b.stopped++ }

func TestPluginIsAsWellAsItsBackend(t *testing.T) {
	backend := &fakeBackend{unwell: errors.New("it has a cold")}
	server := &pluginServer{plugin: Plugin{Work: &Work{}, Backend: backend}}
	got, err := server.Health(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got.GetStatus() != plughostv1.HealthResponse_STATUS_NOT_SERVING || got.GetReason() != "it has a cold" {
		t.Errorf("health %v, want the backend's reason", got)
	}
}

func TestBackendIsStoppedWhenNothingIsInFlight(t *testing.T) {
	backend, work := &fakeBackend{}, &Work{}
	server := &pluginServer{plugin: Plugin{Work: work, Backend: backend}}
	end, _ := work.Begin()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := server.Drain(late, nil); err == nil || backend.stopped != 0 {
		t.Errorf("with work in flight the drain ends with %v, and the backend was stopped %d times", err, backend.stopped)
	}
	end()
	if _, err := server.Drain(t.Context(), nil); err != nil || backend.stopped != 1 {
		t.Errorf("the drain ends with %v, and the backend was stopped %d times, want once", err, backend.stopped)
	}
}

func TestExitErrorIsFoundInWhatWrapsIt(t *testing.T) {
	cause := errors.New("the server is not there")
	err := fmt.Errorf("cannot start: %w", &ExitError{Status: 78, Err: cause})
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Status != 78 || !errors.Is(err, cause) {
		t.Errorf("found %v in %v", exit, err)
	}
}
