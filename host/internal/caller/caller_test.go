package caller_test

import (
	"testing"

	"github.com/plughost/plughost/host/internal/caller"
	"github.com/plughost/plughost/host/internal/config"
)

func TestWhatACallerMayReach(t *testing.T) {
	all := config.Access{Agents: []string{"*"}, Tools: config.Tools{Allow: []string{"*/*"}}}
	tests := []struct {
		name                   string
		access                 config.Access
		service, tool, foreign bool // clock, its tool now, and the service files
		agent, metrics         bool // planner
	}{
		{"everything but the metrics", all, true, true, true, true, false},
		{"nothing", config.Access{}, false, false, false, false, false},
		{"the metrics alone", config.Access{Metrics: true}, false, false, false, false, true},
		{"a tool", config.Access{Tools: config.Tools{Allow: []string{"clock/now"}}}, true, true, false, false, false},
		{"another tool", config.Access{Tools: config.Tools{Allow: []string{"clock/convert"}}}, true, false, false, false, false},
		{"tools, one of them denied", config.Access{Tools: config.Tools{Allow: []string{"*/*"}, Deny: []string{"*/now"}}}, true, false, true, false, false},
		{"tools, all of a service denied", config.Access{Tools: config.Tools{Allow: []string{"*/*"}, Deny: []string{"clock/*"}}}, false, false, true, false, false},
		{"a service", config.Access{Services: []string{"clock"}, Tools: config.Tools{Allow: []string{"*/*"}}}, true, true, false, false, false},
		{"a service without its tools", config.Access{Services: []string{"clock"}}, true, false, false, false, false},
		{"a tool of a service that is out of reach", config.Access{Services: []string{"files"}, Tools: config.Tools{Allow: []string{"clock/now"}}}, false, false, true, false, false},
		{"an agent", config.Access{Agents: []string{"plan*"}}, false, false, false, true, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx := caller.NewContext(t.Context(), caller.New("alice", test.access))
			c := caller.FromContext(ctx)
			if c.Name != "alice" || !c.Restricted() {
				t.Errorf("the caller is %+v", c)
			}
			for what, pair := range map[string][2]bool{
				"clock":     {c.Service("clock"), test.service},
				"clock/now": {c.Tool("clock", "now"), test.tool},
				"files":     {c.Service("files"), test.foreign},
				"planner":   {c.Agent("planner"), test.agent},
				"metrics":   {c.Metrics(), test.metrics},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
				}
			}
		})
	}
	if c := caller.FromContext(t.Context()); c.Restricted() || !c.Tool("a", "b") || !c.Agent("c") || !c.Metrics() {
		t.Errorf("without tokens the caller is %+v", c)
	}
}
