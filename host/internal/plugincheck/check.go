// Package plugincheck launches a plugin alone and looks whether it does what the
// plugin protocol promises.
package plugincheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/host/internal/trial"
	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// Outcome says how a check went.
type Outcome string

// The outcomes.
const (
	// Good is a promise that is kept.
	Good Outcome = "good"
	// Warning is what hosts bear and users will regret.
	Warning Outcome = "warning"
	// Failed is a promise that is broken.
	Failed Outcome = "failed"
	// Skipped is what could not be looked at.
	Skipped Outcome = "skipped"
)

// Finding is the result of one check.
type Finding struct {
	// Check is the promise, in a word or two.
	Check   string  `json:"check"`
	Outcome Outcome `json:"outcome"`
	// Found says what was seen.
	Found string `json:"found"`
	// Advice says what to do; empty if there is nothing to do.
	Advice string `json:"advice,omitempty"`
}

// Report is what was found of a plugin.
type Report struct {
	Plugin   string    `json:"plugin"`
	Kind     string    `json:"kind,omitempty"`
	Name     string    `json:"name,omitempty"`
	Version  string    `json:"version,omitempty"`
	SDK      string    `json:"sdk,omitempty"`
	Findings []Finding `json:"findings"`
}

// Count returns how many findings have an outcome.
func (r Report) Count(outcome Outcome) int {
	n := 0
	for _, f := range r.Findings {
		if f.Outcome == outcome {
			n++
		}
	}
	return n
}

// Options say how a plugin is checked.
type Options struct {
	// Config is a JSON object to configure it with; nil stands for {}.
	Config []byte
	// Port is a free port to give to it, or 0.
	Port int
	// Grace is what it gets to drain, to end, and to notice that its host is
	// gone.
	Grace time.Duration
}

// answerBound is how long an answer that must come at once may take.
const answerBound = 2 * time.Second

// Run checks what spec launches; its kind may be left open. An error says that
// the checks themselves could not be made.
func Run(ctx context.Context, spec launch.Spec, opts Options) (report Report, err error) {
	trial, err := trial.Open(&launch.Spawner{})
	if err != nil {
		return Report{}, err
	}
	c := &checker{ctx: ctx, launcher: trial.Launcher, opts: opts, spec: spec, report: Report{Plugin: spec.Path}}
	defer func() { err = errors.Join(err, c.stopAll(), trial.Close()) }()
	c.run()
	return c.report, nil
}

// checker is the checks of one plugin.
type checker struct {
	ctx      context.Context
	launcher *launch.Launcher
	opts     Options
	spec     launch.Spec
	report   Report
	written  written
	running  []*launch.Instance
}

// run does one check after the other, as far as they make sense.
func (c *checker) run() {
	instance := c.handshake()
	if instance == nil {
		return
	}
	c.describe(instance.Describe())
	if !c.configure(instance) {
		return
	}
	c.health(instance)
	c.port(instance)
	c.doubleStart()
	c.drain(instance)
	c.stop(instance)
	c.lifeline()
	c.output()
}

func (c *checker) add(check string, outcome Outcome, found, advice string) {
	c.report.Findings = append(c.report.Findings, Finding{check, outcome, found, advice})
}

// launch starts an instance, on the port if it is given.
func (c *checker) launch(port int) (*launch.Instance, error) {
	spec := c.spec
	spec.Port = port
	spec.Output = c.written.add
	spec.Configuration = nil // which is a check of its own
	instance, err := c.launcher.Launch(c.ctx, spec)
	if instance != nil {
		c.running = append(c.running, instance)
	}
	return instance, err
}

func (c *checker) stopAll() error {
	var errs []error
	for _, instance := range c.running {
		_, err := instance.Stop(context.WithoutCancel(c.ctx), 0)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *checker) handshake() *launch.Instance {
	if c.spec.Kind == "" {
		c.spec.Kind = marker.KindMCP
	}
	begun := time.Now()
	instance, err := c.launch(c.opts.Port)
	var other *launch.KindError
	if errors.As(err, &other) {
		c.spec.Kind = other.Got
		instance, err = c.launch(c.opts.Port)
	}
	if err != nil {
		c.add("handshake", Failed, err.Error(), "see docs/plugins/protocol.md for what a plugin has to do when it is launched")
		return nil
	}
	c.add("handshake", Good, fmt.Sprintf("protocol version 1, over mutual TLS, after %v", time.Since(begun).Round(time.Millisecond)), "")
	return instance
}

func (c *checker) describe(d *plughostv1.DescribeResponse) {
	c.report.Kind, c.report.Name, c.report.Version, c.report.SDK = string(c.spec.Kind), d.GetName(), d.GetVersion(), d.GetSdk()
	switch {
	case d.GetName() == "":
		c.add("describe", Failed, "it has no name", "set name in the answer to Describe")
	case d.GetVersion() == "":
		c.add("describe", Warning, fmt.Sprintf("%s %q has no version", c.spec.Kind, d.GetName()), "set version in the answer to Describe: it is what users report")
	default:
		c.add("describe", Good, fmt.Sprintf("%s %q, version %s", c.spec.Kind, d.GetName(), d.GetVersion()), "")
	}
}

// configure gives the plugin its configuration, without which it may do nothing.
func (c *checker) configure(instance *launch.Instance) bool {
	const check = "configuration"
	schema := instance.Describe().GetConfigSchema()
	given := c.opts.Config
	if len(schema) == 0 {
		if given != nil {
			c.add(check, Failed, "it declares no configuration, and one was given", "leave --config out")
			return false
		}
		c.add(check, Good, "it takes none", "")
		return true
	}
	if given == nil {
		given = []byte("{}")
	}
	if err := config.CheckJSON(schema, given); err != nil {
		c.add(check, Failed, err.Error(), "give it a configuration that fits with --config FILE, a JSON object; or mend the schema")
		return false
	}
	faults, err := c.configured(instance, given)
	if err != nil || faults != "" {
		c.add(check, Failed, fmt.Sprint("it does not take what fits its schema: ", faults, err), "give it another configuration with --config FILE; or have the schema say what is wanted")
		return false
	}
	_, err = c.configured(instance, given)
	if err == nil {
		c.add(check, Warning, "it can be configured twice", "refuse a second Configure with FAILED_PRECONDITION")
		return true
	}
	c.add(check, Good, "the schema is sound, and what fits it is taken, once", "")
	return true
}

// configured configures an instance, and returns the faults that it found.
func (c *checker) configured(instance *launch.Instance, given []byte) (faults string, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, answerBound)
	defer cancel()
	answer, err := plughostv1.NewPluginClient(instance.Conn()).Configure(ctx, &plughostv1.ConfigureRequest{Config: given})
	var list []string
	for _, fault := range answer.GetFaults() {
		list = append(list, strings.Join(append([]string{"config"}, fault.GetPath()...), ".")+": "+fault.GetMessage())
	}
	return strings.Join(list, "; "), err
}

// another launches one more instance, and configures it.
func (c *checker) another(port int) (*launch.Instance, error) {
	instance, err := c.launch(port)
	if err != nil {
		return nil, err
	}
	if len(instance.Describe().GetConfigSchema()) == 0 {
		return instance, nil
	}
	given := c.opts.Config
	if given == nil {
		given = []byte("{}")
	}
	_, err = c.configured(instance, given)
	return instance, err
}

func (c *checker) health(instance *launch.Instance) {
	ctx, cancel := context.WithTimeout(c.ctx, answerBound)
	defer cancel()
	begun := time.Now()
	if err := instance.Health(ctx); err != nil {
		c.add("health", Failed, err.Error(), "answer Health with STATUS_SERVING as soon as work can be done, and within a second")
		return
	}
	c.add("health", Good, fmt.Sprintf("it serves, and says so within %v", time.Since(begun).Round(time.Millisecond)), "")
}

// doubleStart has two instances run side by side, as happens when one is
// replaced while another installation runs the same plugin.
func (c *checker) doubleStart() {
	const check = "double start"
	second, err := c.another(0)
	if err != nil {
		c.add(check, Failed, "a second instance does not start beside the first: "+err.Error(),
			"share nothing between processes: no fixed port, no lock or socket outside of PLUGHOST_INSTANCE_DIR")
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, answerBound)
	defer cancel()
	if err := second.Health(ctx); err != nil {
		c.add(check, Failed, "a second instance starts, and is not healthy: "+err.Error(), "share nothing between processes")
		return
	}
	if _, err := second.Stop(c.ctx, c.opts.Grace); err != nil {
		c.add(check, Failed, err.Error(), "end upon SIGTERM, with all that was started")
		return
	}
	c.add(check, Good, "two instances run side by side", "")
}

func (c *checker) drain(instance *launch.Instance) {
	const check = "drain"
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.Grace)
	defer cancel()
	begun := time.Now()
	_, err := plughostv1.NewPluginClient(instance.Conn()).Drain(ctx, &plughostv1.DrainRequest{})
	took := time.Since(begun).Round(time.Millisecond)
	switch {
	case status.Code(err) == codes.Unimplemented:
		c.add(check, Failed, "it does not know Drain", "implement it: return when nothing is in flight any more")
		return
	case err != nil:
		c.add(check, Failed, fmt.Sprintf("with nothing in flight it is not drained after %v: %v", took, err), "return from Drain as soon as nothing is in flight")
		return
	}
	select {
	case <-instance.Exited():
		c.add(check, Failed, "it ended by itself", "go on after Drain until SIGTERM comes: answers may still be on their way")
		return
	default:
	}
	health, err := plughostv1.NewPluginClient(instance.Conn()).Health(ctx, &plughostv1.HealthRequest{})
	if err != nil || health.GetStatus() != plughostv1.HealthResponse_STATUS_DRAINING {
		c.add(check, Warning, fmt.Sprintf("drained after %v, and Health then says %s", took, health.GetStatus()), "answer Health with STATUS_DRAINING from Drain on")
		return
	}
	c.add(check, Good, fmt.Sprintf("drained after %v, and still there", took), "")
}

func (c *checker) stop(instance *launch.Instance) {
	const check = "stop"
	result, err := instance.Stop(c.ctx, c.opts.Grace)
	switch {
	case err != nil:
		c.add(check, Failed, err.Error(), "end upon SIGTERM, with all that was started")
	case result.How == probes.Killed:
		c.add(check, Failed, fmt.Sprintf("it had to be killed: it did not end within %v", c.opts.Grace), "end upon SIGTERM; close what keeps the process alive")
	case len(result.Swept) > 0:
		c.add(check, Warning, fmt.Sprintf("it left %d processes behind, which were ended", len(result.Swept)), "end the children before ending yourself")
	default:
		c.add(check, Good, "it ends by itself upon SIGTERM, and leaves nothing", "")
	}
}

// lifeline has the host be gone, for all that the plugin can see.
func (c *checker) lifeline() {
	const check = "lifeline"
	const advice = "read from the descriptor that PLUGHOST_LIFELINE names, and drain and exit at its end of file: " +
		"where there is no death signal nothing else ends the plugin with its host"
	instance, err := c.another(0)
	if err != nil {
		c.add(check, Failed, err.Error(), "start reliably")
		return
	}
	begun := time.Now()
	if err := instance.LetGo(); err != nil {
		c.add(check, Skipped, err.Error(), "")
		return
	}
	select {
	case <-instance.Exited():
		c.add(check, Good, fmt.Sprintf("it ends %v after its host", time.Since(begun).Round(time.Millisecond)), "")
	case <-time.After(c.opts.Grace):
		c.add(check, Failed, fmt.Sprintf("it is still there %v after its host was gone", c.opts.Grace), advice)
	case <-c.ctx.Done():
		c.add(check, Skipped, c.ctx.Err().Error(), "")
	}
}
