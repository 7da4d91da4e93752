package main

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/host/internal/logs"
	"github.com/plughost/plughost/host/internal/supervise"
)

// journal writes what services say, and what happens to them, to their logs;
// the latter to the host's log too.
type journal struct {
	dir string
	log hclog.Logger

	mu   sync.Mutex
	logs map[config.Ref]*logs.Log
}

func openJournal(dir string, services []config.Service, log hclog.Logger) (*journal, error) {
	j := &journal{dir: dir, log: log, logs: make(map[config.Ref]*logs.Log)}
	for _, service := range services {
		l, err := logs.Open(logs.Path(dir, service.Ref().String()))
		if err != nil {
			return nil, errors.Join(err, j.close())
		}
		j.logs[service.Ref()] = l
	}
	return j, nil
}

// configure opens the logs of services that have none yet. A log that cannot be
// opened must not stop its service, which goes without one.
func (j *journal) configure(services []config.Service) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, service := range services {
		ref := service.Ref()
		if j.logs[ref] != nil {
			continue
		}
		l, err := logs.Open(logs.Path(j.dir, ref.String()))
		if err != nil {
			j.log.Error("what a service says is lost", "service", ref, "error", err)
			continue
		}
		j.logs[ref] = l
	}
}

// append writes to a service's log, if it has one.
func (j *journal) append(ref config.Ref, entry logs.Entry) {
	j.mu.Lock()
	l := j.logs[ref]
	j.mu.Unlock()
	if l != nil {
		l.Append(entry)
	}
}

// forget closes the log of a service that is gone. The file stays.
func (j *journal) forget(ref config.Ref) {
	j.mu.Lock()
	l := j.logs[ref]
	delete(j.logs, ref)
	j.mu.Unlock()
	if l == nil {
		return
	}
	if err := l.Close(); err != nil {
		j.log.Warn("not all that a service said is in its log", "service", ref, "error", err)
	}
}

// output takes what a service writes.
func (j *journal) output(ref config.Ref) launch.Output {
	return func(stream launch.Stream, line []byte) {
		level, message, fields := logs.Parse(line)
		j.append(ref, logs.Entry{
			Time:    time.Now(),
			Service: ref.String(),
			Stream:  string(stream),
			Level:   level,
			Message: message,
			Fields:  fields,
		})
	}
}

// watch writes a transition.
func (j *journal) watch(change supervise.Change) {
	level := hclog.Info
	switch change.State {
	case supervise.Backoff, supervise.Unhealthy:
		level = hclog.Warn
	case supervise.Failed:
		level = hclog.Error
	}
	fields := []any{"service", change.Service}
	if change.PID != 0 {
		fields = append(fields, "pid", change.PID)
	}
	if change.State == supervise.Backoff {
		fields = append(fields, "next_try", change.Delay.Round(time.Millisecond))
	}
	j.log.Log(level, string(change.State)+": "+change.Cause, fields...)
	j.append(change.Service, logs.Entry{
		Time:     change.Since,
		Service:  change.Service.String(),
		Instance: change.Instance,
		Stream:   logs.StreamHost,
		Level:    level.String(),
		Message:  string(change.State) + ": " + change.Cause,
	})
	if change.State == supervise.Removed {
		j.forget(change.Service)
	}
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, l := range j.logs {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
