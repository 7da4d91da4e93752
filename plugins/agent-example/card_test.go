package main

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func TestCardPromisesOnlyWhatThePlannerUnderstands(t *testing.T) {
	if !card().Capabilities.Streaming {
		t.Error("the card does not say that the agent streams")
	}
	for _, skill := range card().Skills {
		if len(skill.Examples) == 0 {
			t.Errorf("%s has no examples", skill.ID)
		}
		for _, example := range skill.Examples {
			if makePlan([]string{example}).call == nil {
				t.Errorf("%s: the example %q is not understood", skill.ID, example)
			}
		}
	}
}

func TestPlacesHaveZones(t *testing.T) {
	for name, zone := range zones {
		if _, err := time.LoadLocation(zone); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for other, name := range otherNames {
		if zones[name] == "" || other != strings.ToLower(other) {
			t.Errorf("%s is another name of %s, which has no zone, or is not in lower case", other, name)
		}
	}
}

// Run by hand, without a host, the plugin says how to host it.
func TestBinarySaysHowToHostIt(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "agent-example")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), binary).CombinedOutput()
	if err == nil || !strings.Contains(string(out), `service "agent"`) {
		t.Errorf("got %v and %q, want an error and how to host it", err, out)
	}
}
