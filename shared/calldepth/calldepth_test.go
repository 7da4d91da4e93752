package calldepth

import (
	"errors"
	"math"
	"testing"
)

func TestDepthOfARequest(t *testing.T) {
	for _, test := range []struct {
		name   string
		meta   map[string]any
		depth  int
		deeper bool // whether a call for it may be made
		ok     bool
	}{
		{"none", nil, 0, true, true},
		{"another key", map[string]any{"depth": 5}, 0, true, true},
		{"decoded from JSON", map[string]any{Key: 3.0}, 3, true, true},
		{"set by a program", map[string]any{Key: 3}, 3, true, true},
		{"the last", map[string]any{Key: Max}, Max, false, true},
		{"one more", map[string]any{Key: Max + 1}, 0, false, false},
		{"negative", map[string]any{Key: -1}, 0, false, false},
		{"broken", map[string]any{Key: 1.5}, 0, false, false},
		{"no number", map[string]any{Key: math.NaN()}, 0, false, false},
		{"text", map[string]any{Key: "1"}, 0, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			depth, err := Of(test.meta)
			if depth != test.depth || (err == nil) != test.ok {
				t.Errorf("depth %d, error %v", depth, err)
			}
			deeper, err := Deeper(test.meta)
			var tooDeep *TooDeepError
			switch {
			case !test.deeper && !errors.As(err, &tooDeep):
				t.Errorf("a call is let pass with %v, error %v", deeper, err)
			case test.deeper && (err != nil || deeper[Key] != test.depth+1):
				t.Errorf("a call has %v, error %v", deeper, err)
			}
		})
	}
}

func TestGreatestDepthCounts(t *testing.T) {
	if depth, err := Of(map[string]any{Key: 2}, nil, map[string]any{Key: 5.0}, map[string]any{Key: 1}); depth != 5 || err != nil {
		t.Errorf("depth %d, error %v", depth, err)
	}
}

func TestMetadataIsCopied(t *testing.T) {
	meta := map[string]any{"other": true}
	deeper, err := Deeper(meta)
	if err != nil || deeper["other"] != true || len(meta) != 1 {
		t.Errorf("%v of %v, error %v", deeper, meta, err)
	}
}
