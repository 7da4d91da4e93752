// Package launch is the one sanctioned way to start a plugin. Each launch is a
// new instance: recorded before it is spawned, stamped, given nothing but what
// it was configured to have, and ended whole.
package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	goplugin "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/plughost/plughost/host/internal/cgroup"
	"github.com/plughost/plughost/host/internal/installation"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/marker"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// abortGrace is what a plugin that failed to start gets between SIGTERM and
// SIGKILL: it has nothing to finish.
const abortGrace = 200 * time.Millisecond

// Spec says what to launch.
type Spec struct {
	// Kind and Name are the service's.
	Kind marker.Kind
	Name string
	// Path is the executable, absolute; Args are its arguments with the name
	// that it is called by first, as in exec.Cmd.
	Path string
	Args []string
	// Dir is the working directory.
	Dir string
	// Env is the environment, as Environment makes it.
	Env []string
	// Files are put into the instance's directory with mode 0600, by name.
	Files map[string][]byte
	// EndsOthers says that the plugin has processes of its own to end when the
	// host is gone: it is asked to end then, and not killed.
	EndsOthers bool `json:"-"`
	// Port is the TCP port that the plugin serves on, or 0.
	Port int
	// ReadyTimeout bounds the time from the spawn to the plugin's answer to
	// its first question.
	ReadyTimeout time.Duration `json:"-"`
	// OrphanTTL is how long the plugin goes on without a host, so that the
	// next one can adopt it; 0 if it ends with the host.
	OrphanTTL time.Duration
	// Output takes what the plugin writes.
	Output Output `json:"-"`
	// Redact takes from what the plugin wrote, where an error repeats it, what
	// is to be shown nowhere. Nil takes nothing.
	Redact func(text string) string `json:"-"`
	// Confinement is what it is held to.
	Confinement Confinement
	// Settings are what the plugin is configured with, as they are written.
	Settings json.RawMessage
	// Configuration makes of the settings what the plugin is given. Nil stands
	// for none.
	Configuration Configuration `json:"-"`
}

// Configuration is what is written for a plugin to be configured with.
type Configuration interface {
	// FitConfig returns it as the JSON object that a plugin is given which
	// declares this JSON Schema, or none. Its errors say what does not fit.
	FitConfig(schema []byte) ([]byte, error)
	// ConfigFault is the error for what the plugin finds wrong with a setting.
	ConfigFault(path []string, message string) error
}

// Launcher launches the instances of one installation.
type Launcher struct {
	Installation *installation.Installation
	Keys         *installation.Keys
	Registry     *registry.Registry
	Spawner      *Spawner
	// OutliveHost switches off, for tests, all by which a child learns that
	// the host died, so that orphans stay as they do on a system without a
	// death signal and with plugins that do not watch the lifeline.
	OutliveHost bool
	// Binaries knows the executables that were launched.
	Binaries Binaries
	// Groups is where instances get their control groups, or nil where there
	// are none.
	Groups *cgroup.Tree

	headroom headroom
	reach    reach
	live     sync.Map // of the instances that may have processes: id -> struct{}
}

// Live reports whether an instance was launched by this launcher and not yet
// ended.
func (l *Launcher) Live(instance string) bool {
	_, ok := l.live.Load(instance)
	return ok
}

// Launch starts a new instance and returns when it is ready. If it cannot be
// made ready, in time or before ctx ends, nothing is left of it when Launch
// returns; if something is all the same, the instance comes with the error, so
// that its Stop can try again.
func (l *Launcher) Launch(ctx context.Context, spec Spec) (*Instance, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, spec.ReadyTimeout,
		fmt.Errorf("it was not ready within %v", spec.ReadyTimeout))
	defer cancel()

	release, err := l.headroom.claim()
	if err != nil {
		return nil, err
	}
	defer release()
	if err := l.reach.check(ctx, spec.Path, spec.Dir); err != nil {
		return nil, err
	}
	image, err := spec.verify()
	if err != nil {
		return nil, err
	}
	defer image.Close()
	inst, err := l.prepare(spec)
	if err != nil {
		return nil, err
	}
	inst.runner.image = image
	if err := inst.start(ctx, spec); err != nil {
		err = Redacted(inst.explain(ctx, err), spec.Redact)
		// Whatever ended the start must not keep us from ending the plugin.
		if _, stopErr := inst.end(context.WithoutCancel(ctx), abortGrace); stopErr != nil {
			return inst, errors.Join(err, stopErr)
		}
		return nil, err
	}
	return inst, nil
}

// prepare makes an instance up to its spawn.
func (l *Launcher) prepare(spec Spec) (*Instance, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("cannot make an instance id: %w", err)
	}
	inst := &Instance{
		launcher: l,
		record: registry.Record{
			Identity: marker.Identity{
				Kind:         spec.Kind,
				Service:      spec.Name,
				Installation: l.Installation.ID,
				Instance:     id.String(),
			},
			Path:     spec.Path,
			Digest:   spec.Digest(),
			Port:     spec.Port,
			Intended: time.Now().UTC(),
		},
		runner: newRunner(),
		tail:   &tail{},
		redact: spec.Redact,
	}
	// One that may be executed and not read has no digest.
	inst.record.Binary, _ = l.Binaries.SHA256(spec.Path)
	// Before there is anything that could be taken for what is left of it.
	l.live.Store(inst.ID(), struct{}{})
	if err := inst.makeNeeds(spec); err != nil {
		l.live.Delete(inst.ID())
		return nil, err
	}
	return inst, nil
}

// makeNeeds makes all that an instance needs, and records the intent, last.
func (i *Instance) makeNeeds(spec Spec) error {
	if err := i.makeDir(spec); err != nil {
		return err
	}
	if err := i.makeGroup(spec.Confinement); err != nil {
		return errors.Join(err, os.RemoveAll(i.dir))
	}
	if err := i.launcher.Registry.Put(i.record); err != nil {
		return errors.Join(err, os.RemoveAll(i.dir), i.removeGroup())
	}
	return nil
}

// Instance is one launch of a service.
type Instance struct {
	launcher *Launcher
	record   registry.Record
	dir      string
	group    *cgroup.Group // nil where there are none
	runner   *runner
	client   *plugin.Client
	conn     *grpc.ClientConn
	describe *plughostv1.DescribeResponse
	tail     *tail
	redact   func(string) string // as Spec.Redact

	ending    sync.Mutex
	ended     bool
	endResult probes.Result
}

// ID is the instance's UUID.
func (i *Instance) ID() string { return i.record.Identity.Instance }

// PID is the plugin's process, the leader of its group.
func (i *Instance) PID() int { return i.record.PID }

// Record is what the registry has of the instance.
func (i *Instance) Record() registry.Record { return i.record }

// Conn is the connection to the plugin. It is closed by Stop.
func (i *Instance) Conn() *grpc.ClientConn { return i.conn }

// Describe is what the plugin says of itself.
func (i *Instance) Describe() *plughostv1.DescribeResponse { return i.describe }

// Exited is closed when the plugin's process has ended. Others of the instance
// may live on: Stop ends them.
func (i *Instance) Exited() <-chan struct{} { return i.runner.exited }

// ExitError says how the process ended, once Exited is closed: nil for status
// 0, else an *exec.ExitError.
func (i *Instance) ExitError() error {
	select {
	case <-i.runner.exited:
		return i.runner.waitErr
	default:
		return nil
	}
}

// Health asks the plugin whether it can do its work.
func (i *Instance) Health(ctx context.Context) error {
	return Redacted(i.health(ctx), i.redact)
}

func (i *Instance) health(ctx context.Context) error {
	answer, err := plughostv1.NewPluginClient(i.conn).Health(ctx, &plughostv1.HealthRequest{})
	switch {
	case err != nil:
		return err
	case answer.GetStatus() != plughostv1.HealthResponse_STATUS_SERVING:
		return fmt.Errorf("it says that it is %s: %s",
			strings.ToLower(strings.TrimPrefix(answer.GetStatus().String(), "STATUS_")), answer.GetReason())
	}
	return nil
}

// LastWords are the last lines that the plugin wrote, for a message about its
// end.
func (i *Instance) LastWords() string { return i.tail.String() }

// start spawns the plugin, shakes hands and asks it what it is.
func (i *Instance) start(ctx context.Context, spec Spec) error {
	i.client = plugin.NewClient(i.clientConfig(spec, func(config *plugin.ClientConfig) {
		config.UnixSocketConfig = &plugin.UnixSocketConfig{TempDir: i.dir}
		// The bound is ctx's; go-plugin's own must not come first.
		config.StartTimeout = spec.ReadyTimeout + time.Hour
		config.RunnerFunc = func(_ hclog.Logger, cmd *exec.Cmd, _ string) (goplugin.Runner, error) {
			i.setUpRunner(spec, cmd.Env)
			return i.runner, nil
		}
	}))
	// go-plugin holds its lock for the whole start and takes no context:
	// ending the process is what aborts it.
	started := make(chan struct{})
	defer close(started)
	go func() {
		select {
		case <-ctx.Done():
			i.runner.abort()
		case <-started:
		}
	}()
	protocol, err := i.client.Client()
	if err != nil {
		return err
	}
	if err := i.ask(ctx, protocol, spec.Kind); err != nil {
		return err
	}
	if err := configure(ctx, i.conn, i.describe.GetConfigSchema(), spec.Configuration); err != nil || spec.OrphanTTL == 0 {
		return err
	}
	return i.recordAddress()
}

// configure hands a plugin its configuration, over the connection alone: it may
// hold secrets.
func configure(ctx context.Context, conn *grpc.ClientConn, schema []byte, configuration Configuration) error {
	if configuration == nil {
		return nil
	}
	config, err := configuration.FitConfig(schema)
	if err != nil {
		return &ConfigError{err}
	}
	if len(schema) == 0 {
		return nil
	}
	answer, err := plughostv1.NewPluginClient(conn).Configure(ctx, &plughostv1.ConfigureRequest{Config: config})
	if err != nil {
		return fmt.Errorf("it cannot be configured: %w", err)
	}
	var faults []error
	for _, fault := range answer.GetFaults() {
		faults = append(faults, configuration.ConfigFault(fault.GetPath(), fault.GetMessage()))
	}
	if len(faults) > 0 {
		return &ConfigError{errors.Join(faults...)}
	}
	return nil
}

// recordAddress lets the next host find the plugin.
func (i *Instance) recordAddress() error {
	addr := i.client.ReattachConfig().Addr
	i.record.Network, i.record.Address = addr.Network(), addr.String()
	return i.launcher.Registry.Put(i.record)
}

// ask asks the plugin at the other end of a connection what it is.
func (i *Instance) ask(ctx context.Context, protocol plugin.ClientProtocol, want marker.Kind) error {
	raw, err := protocol.Dispense(shared.PluginName)
	if err != nil {
		return err
	}
	i.conn = raw.(*grpc.ClientConn)
	// go-plugin reports no failure of TLS; the first call does.
	i.describe, err = plughostv1.NewPluginClient(i.conn).Describe(ctx, &plughostv1.DescribeRequest{})
	if err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	return i.checkKind(want)
}

// setUpRunner gives the runner its command. pluginEnv is what go-plugin wants
// the child to have.
func (i *Instance) setUpRunner(spec Spec, pluginEnv []string) {
	env := append([]string{}, spec.Env...)
	env = append(env, pluginEnv...)
	// go-plugin would have the socket in a directory below, for which there is
	// less room in a socket's address.
	env = append(env, plugin.EnvUnixSocketDir+"="+i.dir, shared.EnvInstanceDir+"="+i.dir)
	if spec.Port != 0 {
		env = append(env, shared.EnvPort+"="+strconv.Itoa(spec.Port))
	}
	if !i.launcher.OutliveHost {
		env = append(env, shared.EnvLifeline+"="+strconv.Itoa(lifelineFD))
	}
	if spec.OrphanTTL != 0 {
		env = append(env, shared.EnvOrphanTTL+"="+spec.OrphanTTL.String())
	}
	// Last, since the last of two values wins.
	env = append(env, i.record.Identity.Environ()...)

	r := i.runner
	r.spawner = i.launcher.Spawner
	r.cmd = &exec.Cmd{Path: spec.Path, Args: spec.Args, Dir: spec.Dir, Env: env}
	r.withLifeline = !i.launcher.OutliveHost
	if r.withLifeline && spec.OrphanTTL == 0 {
		r.hostDeath = deathKills
		if spec.EndsOthers {
			r.hostDeath = deathAsks
		}
	}
	r.confinement, r.group = spec.Confinement, i.group
	r.instanceDir = i.dir
	r.output = i.output(spec.Output)
	r.spawned = func(birth probes.Birth) error {
		i.record.PID, i.record.Birth = birth.PID, birth
		return i.launcher.Registry.Put(i.record)
	}
}

func (i *Instance) output(next Output) Output {
	return func(stream Stream, line []byte) {
		i.tail.add(line)
		next(stream, line)
	}
}

func (i *Instance) checkKind(want marker.Kind) error {
	got := kindOf(i.describe.GetKind())
	if got == want {
		return nil
	}
	return &KindError{Got: got, Want: want, Service: i.record.Identity.Service}
}

// KindError says that a plugin is of another kind than its service.
type KindError struct {
	Got, Want marker.Kind
	Service   string
}

func (e *KindError) Error() string {
	return fmt.Sprintf("the plugin is of kind %q, and the service of kind %q: write service %q %q", e.Got, e.Want, e.Got, e.Service)
}

func kindOf(kind plughostv1.Kind) marker.Kind {
	switch kind {
	case plughostv1.Kind_KIND_MCP:
		return marker.KindMCP
	case plughostv1.Kind_KIND_AGENT:
		return marker.KindAgent
	default:
		return "unknown"
	}
}

// explain turns the error of a failed start into one that says what the plugin
// did, in whose words go-plugin's would not be understood.
func (i *Instance) explain(ctx context.Context, err error) error {
	r := i.runner
	if r.held() == nil {
		return err // it was never spawned
	}
	shook := r.shook()
	if mismatch := shook.err(); mismatch != nil {
		return mismatch
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	} else if !r.wasKilled() {
		select {
		case <-r.exited:
			<-r.drained
			err = errors.New("it ended before it was ready: exit status 0")
			if r.waitErr != nil {
				err = fmt.Errorf("it ended before it was ready: %w", r.waitErr)
			}
		default:
		}
	}
	words := i.LastWords()
	switch {
	case shook.seen:
	case strings.Contains(words, foreignWords):
		err = fmt.Errorf("%w: %w", err, ErrForeignPlugin)
	case !errors.Is(err, context.Canceled):
		err = fmt.Errorf("%w, %w", err, ErrNoHandshake)
	}
	if words != "" {
		return fmt.Errorf("%w; its last output was:\n%s", err, indent(words))
	}
	return err
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(text, "\n", "\n  ")
}
