// Package calldepth bounds circles of agents: an agent calls a tool, whose
// server asks another agent, which calls a tool, and so on. How many agents
// stand before a call goes along with it: in the _meta of MCP requests, and in
// the metadata of A2A requests.
package calldepth

import (
	"context"
	"fmt"
	"maps"
	"math"
)

const (
	// Key is where the depth is, a whole number; without it, it is 0.
	Key = "io.github.plughost/depth"
	// Max is the greatest depth that a call may have.
	Max = 8
)

// TooDeepError is the error of a call that is too deep, or whose depth cannot
// be told.
type TooDeepError struct{ why string }

func (e *TooDeepError) Error() string {
	return fmt.Sprintf("the call is refused: %s; is there a circle of agents that call each other?", e.why)
}

// Of reads the depth of a request from its metadata; of several, such as those
// of an A2A request and of its message, the greatest counts. An error is a
// *TooDeepError.
func Of(metas ...map[string]any) (int, error) {
	greatest := 0
	for _, meta := range metas {
		depth, err := read(meta[Key])
		if err != nil {
			return 0, err
		}
		greatest = max(greatest, depth)
	}
	return greatest, nil
}

func read(value any) (int, error) {
	var depth float64
	switch value := value.(type) {
	case nil:
	case float64:
		depth = value
	case int:
		depth = float64(value)
	default:
		return 0, &TooDeepError{fmt.Sprintf("%s in its metadata is a %T, not a number", Key, value)}
	}
	switch {
	case depth > Max:
		return 0, errTooDeep()
	case depth < 0 || depth != math.Trunc(depth):
		return 0, &TooDeepError{fmt.Sprintf("%s in its metadata is %v, not a whole number", Key, depth)}
	}
	return int(depth), nil
}

func errTooDeep() error {
	return &TooDeepError{fmt.Sprintf("more than %d agents stand before it", Max)}
}

// With returns a copy of a request's metadata with a depth.
func With(meta map[string]any, depth int) map[string]any {
	with := maps.Clone(meta)
	if with == nil {
		with = make(map[string]any, 1)
	}
	with[Key] = depth
	return with
}

// Deeper returns a copy of a request's metadata for a call that an agent makes,
// which is one deeper than the request that it serves. An error is a
// *TooDeepError.
func Deeper(meta map[string]any) (map[string]any, error) {
	depth, err := Of(meta)
	switch {
	case err != nil:
		return nil, err
	case depth == Max:
		return nil, errTooDeep()
	}
	return With(meta, depth+1), nil
}

type key struct{}

// NewContext returns a context for what is done to serve a request of a depth.
func NewContext(ctx context.Context, depth int) context.Context {
	return context.WithValue(ctx, key{}, depth)
}

// FromContext returns the depth of the request that is served, or 0.
func FromContext(ctx context.Context) int {
	depth, _ := ctx.Value(key{}).(int)
	return depth
}
