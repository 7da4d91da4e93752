package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// scope is all that expressions can refer to: variables, locals and attributes
// of services. Each is a node that is evaluated when it is first needed, after
// what it needs itself; so two services may refer to attributes of each other.
// In which order services start is another matter.
type scope struct {
	diags     *collector
	variables map[string]*variable
	locals    map[string]*node
	services  map[Ref]*serviceNodes

	// partial is set if a file is missing from this, so that what seems
	// undeclared may well be declared there.
	partial bool

	budget *budget
	hints  int // given so far
	cycles int // reported so far
}

func newScope(diags *collector, partial bool, units int) *scope {
	return &scope{
		diags:     diags,
		partial:   partial,
		budget:    &budget{left: units},
		variables: make(map[string]*variable),
		locals:    make(map[string]*node),
		services:  make(map[Ref]*serviceNodes),
	}
}

type nodeState int

const (
	unseen  nodeState = iota
	pending           // being evaluated, or waiting for what it needs
	known
	failed // that has been reported
)

// node is one value that expressions can refer to.
type node struct {
	name  string         // as it is written, such as local.base
	rng   hcl.Range      // of its declaration
	expr  hcl.Expression // nil for one that is settled from the beginning
	d     *decoder       // of the file of expr
	typed func(cty.Value) (cty.Value, bool)

	state nodeState
	value cty.Value // if known
	needs []need
	next  int // of needs, while pending
}

// need is a reference in an expression.
type need struct {
	node *node
	path []string // from the root of the scope
	rng  hcl.Range
}

// settle evaluates a node, and before it what it needs.
func (s *scope) settle(n *node) {
	if n.state != unseen {
		return
	}
	// The stack is explicit: a chain of references may be long.
	stack := []*node{n}
	n.enter()
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		if top.next == len(top.needs) {
			top.finish()
			stack = stack[:len(stack)-1]
			continue
		}
		needed := top.needs[top.next].node
		top.next++
		switch needed.state {
		case unseen:
			needed.enter()
			stack = append(stack, needed)
		case pending:
			start := slices.Index(stack, needed)
			s.cycle(stack[start:])
			for _, n := range stack[start:] {
				n.expr = nil
			}
		}
	}
}

// enter finds what a node needs.
func (n *node) enter() {
	n.state = pending
	if n.expr == nil {
		return
	}
	var ok bool
	if n.needs, ok = n.d.needs(n.expr); !ok {
		n.expr = nil
	}
}

// finish evaluates a node all of whose needs are settled. One that has lost its
// expression is faulty.
func (n *node) finish() {
	n.state = failed
	if n.expr == nil {
		return
	}
	v, ok := n.d.value(n.expr, n.needs)
	if ok && n.typed != nil {
		v, ok = n.typed(v)
	}
	if ok {
		n.state, n.value = known, v
	}
}

// cycle reports nodes that need each other, of which each waits for the next.
func (s *scope) cycle(nodes []*node) {
	if s.cycles++; s.cycles > maxCycles {
		return
	}
	edges := make([]edge[string], len(nodes))
	for i, n := range nodes {
		used := n.needs[n.next-1]
		edges[i] = edge[string]{from: n.name, to: used.node.name, rng: used.rng}
	}
	if len(edges) == 1 {
		s.diags.errorf(edges[0].rng, "Reference to itself", "%s refers to itself, so it has no value.", edges[0].from)
		return
	}
	// Wherever the evaluation began, the report begins at the first in the files.
	first := slices.MinFunc(edges, func(a, b edge[string]) int {
		return cmp.Or(cmp.Compare(a.rng.Filename, b.rng.Filename), cmp.Compare(a.rng.Start.Byte, b.rng.Start.Byte))
	})
	start := slices.Index(edges, first)
	edges = slices.Concat(edges[start:], edges[:start])
	s.diags.errorf(edges[0].rng, "References form a cycle", "Each of these values needs the next: %s. None of them can be known:%s",
		chain(edges), places(edges, "refers to"))
}

// needs finds what an expression refers to. What stands for nothing has been
// reported if ok is false.
func (d *decoder) needs(expr hcl.Expression) (needs []need, ok bool) {
	ok = true
	for _, traversal := range expr.Variables() {
		if traversal.IsRelative() {
			continue
		}
		rng := func(steps int) hcl.Range { return d.within(traversal[:steps].SourceRange(), expr) }
		var n *node
		var steps int
		switch traversal.RootName() {
		case "var":
			n, steps = d.variableNode(traversal, rng), 2
		case "local":
			n, steps = d.localNode(traversal, rng), 2
		case "service":
			n, steps = d.serviceNode(traversal, rng)
		default:
			d.unknownName(traversal, rng(1))
		}
		if n == nil {
			ok = false
			continue
		}
		words, _ := traversalWords(traversal[:steps])
		needs = append(needs, need{node: n, path: words, rng: rng(min(steps, 3))})
	}
	return needs, ok
}

// within keeps a range inside of an expression: the strings of a JSON file are
// parsed without their escapes, so positions in them can be off.
func (d *decoder) within(rng hcl.Range, expr hcl.Expression) hcl.Range {
	if d.src.json && !inside(rng, expr.Range()) {
		return expr.Range()
	}
	return rng
}

// unknownName reports a name that stands for nothing.
func (d *decoder) unknownName(traversal hcl.Traversal, rng hcl.Range) {
	name := traversal.RootName()
	detail := fmt.Sprintf("There is no variable %s. ", quote(name))
	roots := map[string]string{"vars": "var", "variable": "var", "variables": "var", "locals": "local", "services": "service"}
	switch {
	case len(traversal) > 1 && roots[name] != "":
		detail += fmt.Sprintf("What is declared is written %s.NAME.", roots[name])
	case d.src.json || d.interpolated(rng):
		detail += fmt.Sprintf("If it is meant for a shell or another program, escape it: write $${%s}. If a variable of the environment is meant, write ${env(%s)}.", name, quote(name))
	default:
		detail += fmt.Sprintf(`If a text is meant, put it in quotes: write "%s". A variable that is declared here is written var.%s.`, name, name)
	}
	d.diags.errorf(rng, "Unknown variable", "%s", detail)
}

// variableNode finds what a reference to a variable stands for, or reports that
// it stands for nothing.
func (d *decoder) variableNode(traversal hcl.Traversal, rng func(int) hcl.Range) *node {
	name, ok := secondWord(traversal)
	if !ok {
		d.diags.errorf(rng(1), "A name is wanted", "var: the name of a variable is wanted after it, as in var.NAME; it cannot be computed.")
		return nil
	}
	if v := d.scope.variables[name]; v != nil {
		return v.node
	}
	d.undeclared(rng(2), "Variable not declared", "var", name, slices.Sorted(maps.Keys(d.scope.variables)),
		fmt.Sprintf("declare it with variable %s { }", quote(name)))
	return nil
}

// localNode does the same for a local.
func (d *decoder) localNode(traversal hcl.Traversal, rng func(int) hcl.Range) *node {
	name, ok := secondWord(traversal)
	if !ok {
		d.diags.errorf(rng(1), "A name is wanted", "local: the name of a local is wanted after it, as in local.NAME; it cannot be computed.")
		return nil
	}
	if n := d.scope.locals[name]; n != nil {
		return n
	}
	d.undeclared(rng(2), "Local not declared", "local", name, slices.Sorted(maps.Keys(d.scope.locals)), "declare it in a locals block")
	return nil
}

func secondWord(traversal hcl.Traversal) (string, bool) {
	words, _ := traversalWords(traversal[:min(2, len(traversal))])
	if len(words) < 2 {
		return "", false
	}
	return words[1], true
}

// undeclared reports a variable or a local that is not declared, unless it may
// well be in a file that could not be read.
func (d *decoder) undeclared(rng hcl.Range, summary, root, name string, declared []string, advice string) {
	if d.scope.partial {
		return
	}
	if before, after, ok := minus(name, declared); ok {
		d.diags.errorf(rng, summary, "%s.%s is not declared. A dash belongs to the name that it stands in; to subtract, write %s.%s - %s.",
			root, name, root, before, after)
		return
	}
	if d.scope.hints++; d.scope.hints <= maxHints {
		if near := suggest(name, declared); near != "" {
			d.diags.errorf(rng, summary, "%s.%s is not declared. Did you mean %s.%s?", root, name, root, near)
			return
		}
	}
	d.diags.errorf(rng, summary, "%s.%s is not declared: %s.", root, name, advice)
}

// minus takes a name apart at a dash before which there is a declared name.
func minus(name string, declared []string) (before, after string, ok bool) {
	for i, c := range name {
		if c != '-' || i+1 == len(name) {
			continue
		}
		if _, ok := slices.BinarySearch(declared, name[:i]); ok {
			before, after = name[:i], name[i+1:]
		}
	}
	return before, after, before != ""
}

// object is a value under construction: what an expression needs, each at its
// path.
type object map[string]any // object or cty.Value

func (o object) put(path []string, v cty.Value) {
	for _, word := range path[:len(path)-1] {
		below, ok := o[word].(object)
		if !ok {
			below = make(object)
			o[word] = below
		}
		o = below
	}
	o[path[len(path)-1]] = v
}

func (o object) values() map[string]cty.Value {
	values := make(map[string]cty.Value, len(o))
	for name, below := range o {
		switch below := below.(type) {
		case object:
			values[name] = cty.ObjectVal(below.values())
		case cty.Value:
			values[name] = below
		}
	}
	return values
}

// edge is one reference.
type edge[T any] struct {
	from, to T
	rng      hcl.Range
}

// chain writes a cycle as a, b, a.
func chain[T any](edges []edge[T]) string {
	var b strings.Builder
	for _, e := range edges {
		fmt.Fprintf(&b, "%v, ", e.from)
	}
	return fmt.Sprint(b.String(), edges[0].from)
}

// places writes each reference of a cycle with its place, one a line.
func places[T any](edges []edge[T], verb string) string {
	var b strings.Builder
	for _, e := range edges {
		fmt.Fprintf(&b, "\n  %v %s %v at %s", e.from, verb, e.to, e.rng)
	}
	return b.String()
}
