package main

import (
	"context"
	"errors"
	"slices"
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
	dir    string
	bounds logs.Options
	log    hclog.Logger

	mu   sync.Mutex
	refs []config.Ref // in the order of the configuration
	logs map[config.Ref]*logs.Log
}

func openJournal(dir string, conf *config.Config, log hclog.Logger) (*journal, error) {
	j := &journal{dir: dir, bounds: logs.Options(conf.Host.Logs), log: log, logs: make(map[config.Ref]*logs.Log)}
	for _, service := range conf.Services {
		l, err := j.open(service.Ref())
		if err != nil {
			return nil, errors.Join(err, j.close())
		}
		j.add(service.Ref(), l)
	}
	return j, nil
}

func (j *journal) open(ref config.Ref) (*logs.Log, error) {
	return logs.Open(logs.Path(j.dir, ref.String()), j.bounds)
}

func (j *journal) add(ref config.Ref, l *logs.Log) {
	j.refs = append(j.refs, ref)
	j.logs[ref] = l
}

// find returns the log of a service, or nil.
func (j *journal) find(ref config.Ref) *logs.Log {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.logs[ref]
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
		l, err := j.open(ref)
		if err != nil {
			j.log.Error("what a service says is lost", "service", ref, "error", err)
			continue
		}
		j.add(ref, l)
	}
}

// append writes to a service's log, if it has one.
func (j *journal) append(ref config.Ref, entry logs.Entry) {
	if l := j.find(ref); l != nil {
		l.Append(entry)
	}
}

// forget closes the log of a service that is gone. The file stays.
func (j *journal) forget(ref config.Ref) {
	j.mu.Lock()
	l := j.logs[ref]
	delete(j.logs, ref)
	j.refs = slices.DeleteFunc(j.refs, func(r config.Ref) bool { return r == ref })
	j.mu.Unlock()
	if l == nil {
		return
	}
	l.EndFollowing()
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

// ReadLogs implements control.Logs.
func (j *journal) ReadLogs(ctx context.Context, services []config.Ref, query logs.Query, follow bool, yield func([]logs.Entry) error) error {
	if len(services) == 0 {
		j.mu.Lock()
		services = slices.Clone(j.refs)
		j.mu.Unlock()
	}
	var followed []*logs.Log
	var paths []string
	for _, ref := range services {
		l := j.find(ref)
		if l == nil {
			return &supervise.UnknownServiceError{Ref: ref}
		}
		followed = append(followed, l)
		paths = append(paths, logs.Path(j.dir, ref.String()))
	}
	if follow {
		return logs.Follow(ctx, followed, query, yield)
	}
	return logs.Read(paths, query, func(entry logs.Entry) error {
		return errors.Join(ctx.Err(), yield([]logs.Entry{entry}))
	})
}

// counts are what was written to the log of a service.
func (j *journal) counts(ref config.Ref) logs.Counts {
	if l := j.find(ref); l != nil {
		return l.Counts()
	}
	return logs.Counts{}
}

// endFollowing ends the requests that follow logs.
func (j *journal) endFollowing() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.logs {
		l.EndFollowing()
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
