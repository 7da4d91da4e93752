package plugincheck

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/plughost/plughost/host/internal/launch"
)

// maxExamples is how many lines are kept to be shown.
const maxExamples = 3

// written is what a plugin wrote in all its lives.
type written struct {
	mu       sync.Mutex
	stdout   []string
	plain    []string
	lines    int
	unparsed int
	loud     int
}

// add takes a line; it is a launch.Output.
func (w *written) add(stream launch.Stream, line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if stream == launch.Stdout {
		w.loud++
		w.stdout = keep(w.stdout, line)
		return
	}
	w.lines++
	if !structured(line) {
		w.unparsed++
		w.plain = keep(w.plain, line)
	}
}

func keep(examples []string, line []byte) []string {
	if len(examples) == maxExamples {
		return examples
	}
	return append(examples, fmt.Sprintf("%.100q", line))
}

// structured reports whether a line is a log entry that the host takes apart:
// JSON with a level and a message, as hclog and slog write it.
func structured(line []byte) bool {
	var entry map[string]any
	if json.Unmarshal(line, &entry) != nil {
		return false
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := entry[name].(string); ok {
				return true
			}
		}
		return false
	}
	return has("@level", "level") && has("@message", "msg", "message")
}

// output looks at all that was written, which is whole by now.
func (c *checker) output() {
	w := &c.written
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loud > 0 {
		c.add("quiet stdout", Warning, fmt.Sprintf("%d lines on standard output, such as %s", w.loud, w.stdout[0]),
			"write only the handshake there; logs go to standard error")
	} else {
		c.add("quiet stdout", Good, "nothing but the handshake is on standard output", "")
	}
	switch {
	case w.unparsed > 0:
		c.add("log format", Warning, fmt.Sprintf("%d of %d lines on standard error are plain text, such as %s", w.unparsed, w.lines, w.plain[0]),
			"write JSON lines as hclog or slog do, so that the log knows their levels and fields")
	case w.lines == 0:
		c.add("log format", Good, "it wrote nothing to standard error", "")
	default:
		c.add("log format", Good, fmt.Sprintf("all %d lines on standard error are JSON with a level and a message", w.lines), "")
	}
}
