package supervise

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
)

// edge is a transition.
type edge struct{ from, to State }

// allEdges are those that the table edges has.
func allEdges() map[edge]bool {
	all := make(map[edge]bool)
	for from, next := range edges {
		for _, to := range next {
			all[edge{from, to}] = true
		}
	}
	return all
}

// The diagram in docs/architecture.md shows every transition that there is, and
// no other.
func TestTheDiagramShowsEveryTransition(t *testing.T) {
	content, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, diagram, ok := strings.Cut(string(content), "```mermaid\nstateDiagram-v2\n")
	if !ok {
		t.Fatal("there is no diagram of states in docs/architecture.md")
	}
	diagram, _, _ = strings.Cut(diagram, "```")
	shown := make(map[edge]bool)
	for _, match := range regexp.MustCompile(`(?m)^\s*(\w+) --> (\w+): \S`).FindAllStringSubmatch(diagram, -1) {
		e := edge{State(match[1]), State(match[2])}
		if shown[e] {
			t.Errorf("the diagram shows the way from %s to %s twice", e.from, e.to)
		}
		shown[e] = true
	}
	if n := strings.Count(diagram, "-->") - strings.Count(diagram, "[*]"); n != len(shown) {
		t.Errorf("%d arrows of the diagram could not be read", n-len(shown))
	}
	want := allEdges()
	for e := range maps.Keys(shown) {
		if !want[e] {
			t.Errorf("the diagram shows a way from %s to %s, which there is not", e.from, e.to)
		}
	}
	for e := range maps.Keys(want) {
		if !shown[e] {
			t.Errorf("the diagram does not show the way from %s to %s", e.from, e.to)
		}
	}
}
