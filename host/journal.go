package main

import (
	"errors"
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
	log  hclog.Logger
	logs map[config.Ref]*logs.Log
}

func openJournal(dir string, services []config.Service, log hclog.Logger) (*journal, error) {
	j := &journal{log: log, logs: make(map[config.Ref]*logs.Log)}
	for _, service := range services {
		l, err := logs.Open(logs.Path(dir, service.Ref().String()))
		if err != nil {
			return nil, errors.Join(err, j.close())
		}
		j.logs[service.Ref()] = l
	}
	return j, nil
}

// output takes what a service writes.
func (j *journal) output(ref config.Ref) launch.Output {
	log := j.logs[ref]
	return func(stream launch.Stream, line []byte) {
		level, message, fields := logs.Parse(line)
		log.Append(logs.Entry{
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
	j.logs[change.Service].Append(logs.Entry{
		Time:     change.Since,
		Service:  change.Service.String(),
		Instance: change.Instance,
		Stream:   logs.StreamHost,
		Level:    level.String(),
		Message:  string(change.State) + ": " + change.Cause,
	})
}

func (j *journal) close() error {
	var errs []error
	for _, l := range j.logs {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
