package launch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	goplugin "github.com/hashicorp/go-plugin/runner"

	"github.com/plughost/plughost/host/internal/peer"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// adoptTimeout bounds an adoption. A plugin that takes longer is replaced, for
// which there must be time.
const adoptTimeout = 5 * time.Second

// Digest is of all that a running instance was made from, as far as a Spec says
// it: two that have the same digest need no new instance. It does not cover the
// content of the executable.
func (s Spec) Digest() string {
	content, err := json.Marshal(s)
	if err != nil { // it holds nothing that could make it fail
		return ""
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Adopt takes over an instance that outlived the host which launched it. It
// must have been launched to, from the same Spec and the same binary; be
// proven by its birth record or its marker; listen itself where it is said to;
// and answer over mutual TLS that it is healthy, within a few seconds. Then its
// output goes on into spec.Output, beginning with what it wrote meanwhile, and
// it ends or goes on with this host as with the one before.
//
// An error says why the instance cannot be used. Nothing was signalled.
func (l *Launcher) Adopt(ctx context.Context, record registry.Record, spec Spec) (*Instance, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, adoptTimeout, fmt.Errorf("it did not answer within %v", adoptTimeout))
	defer cancel()
	if err := l.reach.check(ctx, spec.Path); err != nil {
		return nil, err
	}
	if err := l.adoptable(record, spec); err != nil {
		return nil, err
	}
	process, err := probes.Open(record.PID)
	if err != nil {
		return nil, err
	}
	inst := &Instance{
		launcher: l,
		record:   record,
		dir:      l.Installation.InstanceDir(record.Identity.Instance),
		tail:     &tail{},
		redact:   spec.Redact,
	}
	if l.Groups != nil && record.Cgroup != "" {
		inst.group = l.Groups.Find(inst.ID(), record.Cgroup)
	}
	if err := inst.adopt(ctx, process, spec); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if inst.conn != nil {
			_ = inst.conn.Close()
		}
		return nil, errors.Join(Redacted(err, spec.Redact), process.Close())
	}
	l.live.Store(inst.ID(), struct{}{})
	return inst, nil
}

// adoptable says from the record alone why an instance cannot be adopted.
func (l *Launcher) adoptable(record registry.Record, spec Spec) error {
	switch {
	case spec.OrphanTTL == 0:
		return errors.New("the service's processes are not to outlive their host")
	case record.PID == 0 || record.Address == "":
		return errors.New("its start was not finished")
	case record.Digest != spec.Digest():
		return errors.New("it was launched from another configuration, or another environment")
	}
	now, err := l.Binaries.SHA256(spec.Path)
	switch {
	case err != nil:
		return fmt.Errorf("its binary cannot be read: %w", err)
	case now != record.Binary:
		return errors.New("its binary has changed")
	}
	return nil
}

// adopt proves the process, connects to it, and becomes its host.
func (i *Instance) adopt(ctx context.Context, process *probes.Process, spec Spec) error {
	proof := process.Identify(probes.Expect{Identity: i.record.Identity, Birth: i.record.Birth})
	if proof.Verdict != probes.Ours {
		return fmt.Errorf("process %d is %s: %s", i.record.PID, proof.Verdict, proof.Reason)
	}
	if process.Exited() {
		return probes.ErrGone
	}
	if err := i.checkListener(ctx); err != nil {
		return err
	}
	i.runner = i.attach(process, spec)
	i.client = plugin.NewClient(i.clientConfig(spec, func(config *plugin.ClientConfig) {
		config.Reattach = &plugin.ReattachConfig{
			Protocol:        plugin.ProtocolGRPC,
			ProtocolVersion: shared.ProtocolVersion,
			Addr:            &net.UnixAddr{Net: i.record.Network, Name: i.record.Address},
			Pid:             i.record.PID,
			ReattachFunc:    func() (goplugin.AttachedRunner, error) { return i.runner, nil },
		}
	}))
	protocol, err := i.reattach(ctx)
	if err != nil {
		return err
	}
	if err := i.ask(ctx, protocol, spec.Kind); err != nil {
		return err
	}
	if err := i.Health(ctx); err != nil {
		return fmt.Errorf("it is not healthy: %w", err)
	}
	return i.takeStreams(ctx)
}

// reattach makes go-plugin's connection, for which go-plugin takes no context
// and up to the 20 seconds that gRPC gives to a peer that says nothing.
func (i *Instance) reattach(ctx context.Context) (plugin.ClientProtocol, error) {
	type result struct {
		protocol plugin.ClientProtocol
		err      error
	}
	done := make(chan result, 1)
	go func() {
		protocol, err := i.client.Client()
		done <- result{protocol, err}
	}()
	select {
	case r := <-done:
		return r.protocol, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// checkListener makes sure that it is the process itself that listens where the
// record says. (That it has the instance's key is proven by TLS.)
func (i *Instance) checkListener(ctx context.Context) error {
	if i.record.Network != "unix" || !within(i.dir, i.record.Address) {
		return fmt.Errorf("it is said to listen at %s %q, which is not in its directory", i.record.Network, i.record.Address)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, i.record.Network, i.record.Address)
	if err != nil {
		return fmt.Errorf("it does not listen: %w", err)
	}
	defer conn.Close()
	pid, err := peer.PID(conn.(*net.UnixConn))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return nil // TLS has to do
	case err != nil:
		return fmt.Errorf("cannot tell who listens at its socket: %w", err)
	case pid != i.record.PID:
		return fmt.Errorf("process %d listens at its socket, and not process %d", pid, i.record.PID)
	}
	return nil
}

// takeStreams gives the plugin the pipes of this host, and logs what it wrote
// while it had none.
func (i *Instance) takeStreams(ctx context.Context) error {
	pipes, err := openNamedPipes(i.dir)
	if err != nil {
		return err
	}
	defer pipes.remove()
	answer, err := plughostv1.NewPluginClient(i.conn).Adopt(ctx, &plughostv1.AdoptRequest{
		Stdout:   pipes.stdoutName,
		Stderr:   pipes.stderrName,
		Lifeline: pipes.lifelineName,
	})
	if err != nil {
		pipes.close()
		return fmt.Errorf("it cannot be adopted: %w", err)
	}
	i.runner.lifeline = pipes.lifeline
	i.runner.readFrom(pipes.stdout, pipes.stderr, func() {
		for _, name := range answer.GetOutput() {
			i.logFile(name)
		}
	})
	return nil
}

// logFile logs what a plugin wrote without a host.
func (i *Instance) logFile(name string) {
	path := filepath.Join(i.dir, filepath.Base(name))
	file, err := openOutput(path)
	if err != nil {
		return
	}
	defer os.Remove(path)
	defer file.Close()
	lines := &lineWriter{stream: Stderr, output: i.runner.output}
	_, _ = io.Copy(lines, file)
	lines.flush()
}

// attach returns the runner of a process that this host did not start, and
// takes over process.
func (i *Instance) attach(process *probes.Process, spec Spec) *runner {
	r := newRunner()
	r.cmd = &exec.Cmd{Path: spec.Path} // for its name
	r.confinement, r.group = spec.Confinement, i.group
	r.instanceDir, r.output, r.process = i.dir, i.output(spec.Output), process
	go func() {
		defer close(r.exited)
		if r.waitErr = process.Wait(context.Background()); r.waitErr == nil {
			r.waitErr = r.explainExit(exitOf(process))
		} // else it was closed: nobody asks any more
	}()
	return r
}

// readFrom has the streams of an attached process read to their end, after
// what first does.
func (r *runner) readFrom(stdout, stderr *os.File, first func()) {
	var pumps sync.WaitGroup
	earlier := make(chan struct{})
	pumps.Go(func() {
		defer close(earlier)
		first()
	})
	for stream, pipe := range map[Stream]*os.File{Stdout: stdout, Stderr: stderr} {
		pumps.Go(func() {
			<-earlier
			r.pump(stream, pipe)
		})
	}
	go func() {
		<-r.exited
		r.endPumps(&pumps, stdout, stderr)
	}()
}

// ExitError says how a process ended that was not this host's child.
type ExitError struct{ Status probes.ExitStatus }

func (e *ExitError) Error() string { return e.Status.String() }

// ExitCode is what the process gave to exit, or -1 if a signal ended it.
func (e *ExitError) ExitCode() int { return e.Status.Code }

// reapPatience is how long a parent may take to reap a process before its exit
// status counts as unknown: the kernel tells it no earlier, and init may be
// slow.
const reapPatience = 50 * time.Millisecond

// exitOf says how a process ended, as exec.Cmd.Wait would.
func exitOf(process *probes.Process) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(reapPatience)
	for {
		status, err := process.ExitStatus()
		switch {
		case err == nil && status.Success():
			return nil
		case err == nil:
			return &ExitError{status}
		case !errors.Is(err, probes.ErrNotReaped) || time.Now().After(deadline):
			return errors.New("it ended, and how is not known: an earlier host had started it")
		}
		<-tick.C
	}
}

// clientConfig is what a started and an adopted instance have in common.
func (i *Instance) clientConfig(spec Spec, set func(*plugin.ClientConfig)) *plugin.ClientConfig {
	config := &plugin.ClientConfig{
		HandshakeConfig:  shared.Handshake(),
		Plugins:          shared.Plugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		GRPCDialOptions:  shared.DialOptions(),
		TLSConfig:        i.launcher.Keys.ClientTLS(i.ID()),
		SkipHostEnv:      true,
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       &lineWriter{stream: Stdout, output: i.output(spec.Output)},
		SyncStderr:       &lineWriter{stream: Stderr, output: i.output(spec.Output)},
	}
	set(config)
	return config
}
