package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/installation"
	"github.com/plughost/plughost/host/internal/logs"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
)

// knowledge is what a command line knows of its installation, if there is one,
// to prove processes by.
type knowledge struct {
	installation string // empty if there is none
	running      bool   // whether a host runs
	records      []registry.Record
}

// know asks the running host for its records, or reads them from the registry
// if no host runs. That there is no installation is no error: nothing is ours
// then.
func (l *location) know(ctx context.Context) (knowledge, error) {
	paths, err := installation.Find(l.dir(""))
	var missing *installation.NotFoundError
	if errors.As(err, &missing) {
		return knowledge{}, nil
	}
	if err != nil {
		return knowledge{}, err
	}
	k := knowledge{installation: paths.ID}
	k.records, err = newClient(paths).Instances(ctx)
	if err == nil {
		k.running = true
		return k, nil
	}
	if !errors.Is(err, control.ErrNoHost) {
		return k, err
	}
	k.records, err = registry.Read(paths.Registry())
	return k, err
}

// record returns the record of the instance whose plugin has the pid, if any.
func (k knowledge) record(pid int) (registry.Record, bool) {
	for _, record := range k.records {
		if record.PID == pid {
			return record, true
		}
	}
	return registry.Record{}, false
}

// live reports whether an instance is one of the running host's.
func (k knowledge) live(instance string) bool {
	if !k.running {
		return false
	}
	for _, record := range k.records {
		if record.Identity.Instance == instance {
			return true
		}
	}
	return false
}

// prove says whether a held process is the installation's. A record whose pid
// is another process's now does not keep that one's own marker from counting.
func (k knowledge) prove(process *probes.Process) probes.Proof {
	if k.installation == "" {
		proof := probes.Proof{Verdict: probes.NotOurs, Reason: "there is no installation in the state directory that it could belong to"}
		proof.Identity, _ = process.Marker()
		proof.Birth, _ = process.Birth()
		return proof
	}
	if record, ok := k.record(process.PID()); ok {
		proof := process.Identify(probes.Expect{Identity: record.Identity, Birth: record.Birth})
		if proof.Verdict == probes.Ours {
			return proof
		}
	}
	return process.Identify(probes.Expect{Identity: marker.Identity{Installation: k.installation}})
}

// describeIdentity says in words what a marker says.
func describeIdentity(id marker.Identity, own string) string {
	if id.IsZero() {
		return "unmarked"
	}
	whose := "another installation, " + id.Installation
	if id.Installation == own {
		whose = "this installation"
	}
	if id.Kind == marker.KindHost {
		return "the host of " + whose
	}
	return fmt.Sprintf("service %s.%s of %s, instance %s", id.Kind, id.Service, whose, id.Instance)
}

// commandLine is a process's command as a person would type it. Processes
// choose it themselves, so what could steer a terminal is escaped.
func commandLine(info probes.Info) string {
	if len(info.Args) == 0 {
		return "[" + logs.Printable(info.Command) + "]"
	}
	return logs.Printable(strings.Join(info.Args, " "))
}

func owner(user string, uid int) string {
	if user == "" {
		return fmt.Sprintf("uid %d", uid)
	}
	return user
}
