//go:build unix

package control

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
)

// configuration notes what it was asked, and answers as it was told.
type configuration struct {
	asked    string
	in       config.Input
	terminal Terminal
	plan     Plan
	err      error
}

func (c *configuration) Reload(_ context.Context, terminal Terminal) (Plan, error) {
	c.asked, c.in, c.terminal = "reload", config.Input{}, terminal
	return c.plan, c.err
}

func (c *configuration) Plan(_ context.Context, in config.Input, terminal Terminal) (Plan, error) {
	c.asked, c.in, c.terminal = "plan", in, terminal
	return c.plan, c.err
}

func TestReloadAndPlan(t *testing.T) {
	some := Plan{
		Services: []supervise.Step{
			{Service: clock, Action: supervise.Replace, Because: []string{"env.TOKEN", "binary"}, State: supervise.Ready, PID: 42},
			{Service: assistant, Action: supervise.StartIt, Error: "it failed"},
		},
		HostUpdates: []string{"log_level"}, HostRestart: []string{"listen"}, Diagnostics: "Warning: é\n",
	}
	c := &configuration{}
	path, _ := serve(t, &services{}, func(s *Server) { s.HandleConfiguration(c) })
	client := NewClient(path)
	terminal := Terminal{Color: true, Width: 80}
	in := config.Input{Paths: []string{"/etc/a b.hcl", "/etc/c&d?=%"}, Vars: []string{"token=hunter2&x"}, VarFiles: []string{"/v.hcl"}}
	calls := map[string]func() (Plan, error){
		"reload": func() (Plan, error) { return client.Reload(t.Context(), terminal) },
		"plan":   func() (Plan, error) { return client.Plan(t.Context(), in, terminal) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			c.plan, c.err = some, nil
			got, err := call()
			if err != nil || !reflect.DeepEqual(got, some) {
				t.Errorf("the answer is %+v, %v", got, err)
			}
			if c.asked != name || c.terminal != terminal || name == "plan" && !reflect.DeepEqual(c.in, in) {
				t.Errorf("it was asked %+v", c)
			}

			refusal := RefusedError{Message: "refused", Diagnostics: "Error: all of it\n"}
			c.err = &refusal
			var refused *RefusedError
			if _, err := call(); !errors.As(err, &refused) || *refused != refusal {
				t.Errorf("the refusal is %v", err)
			}

			c.err = supervise.ErrShuttingDown
			if _, err := call(); err == nil || err.Error() != supervise.ErrShuttingDown.Error() {
				t.Errorf("during a shutdown: %v", err)
			}
		})
	}
	// What was there before is there still.
	if err := client.Do(t.Context(), clock, Stop); err != nil {
		t.Error(err)
	}
}

func TestPlanChanges(t *testing.T) {
	step := func(action supervise.Action) Plan { return Plan{Services: []supervise.Step{{Action: action}}} }
	for name, test := range map[string]struct {
		plan Plan
		want bool
	}{
		"nothing":                         {Plan{Diagnostics: "Warning\n"}, false},
		"a service that is kept":          {step(supervise.Keep), false},
		"one that starts":                 {step(supervise.StartIt), true},
		"one that is updated":             {step(supervise.ChangeInPlace), true},
		"one that stops":                  {step(supervise.Drop), true},
		"a setting of the host":           {Plan{HostUpdates: []string{"log_level"}}, true},
		"one that needs another start":    {Plan{HostRestart: []string{"listen"}}, true},
		"a service that is restarted too": {Plan{Services: append(step(supervise.Keep).Services, step(supervise.Replace).Services...)}, true},
	} {
		if got := test.plan.Changes(); got != test.want {
			t.Errorf("%s is a change: %v, want %v", name, got, test.want)
		}
	}
}

func TestTerminalThatMakesNoSenseIsNone(t *testing.T) {
	c := &configuration{}
	path, _ := serve(t, &services{}, func(s *Server) { s.HandleConfiguration(c) })
	if err := NewClient(path).do(t.Context(), "POST", "/v1/reload?color=maybe&width=-"+strings.Repeat("9", 40), nil); err != nil || c.terminal != (Terminal{}) {
		t.Errorf("%v, %+v", err, c.terminal)
	}
}
