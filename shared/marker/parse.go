package marker

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrUnmarked says that an environment holds no marker variable at all.
var ErrUnmarked = errors.New("no marker variables")

// ErrMalformed says that an environment holds marker variables which do not
// identify a process: one is missing, empty, there twice, or contradicts
// another. The error that wraps it names the variable.
var ErrMalformed = errors.New("malformed marker")

// Parse reads the identity out of an environment block: entries NAME=value,
// each ended by a NUL (the last one may lack it), as Linux shows a process's
// environment in /proc. It answers with ErrUnmarked or an error that wraps
// ErrMalformed when there is none.
//
// A block is a subprocess's if it holds Subprocess, Installation, Instance and
// one of MCPService and Agent, and a host's if Host is the only marker
// variable. Every marker variable may be there only once, equal or not, and
// none may be empty. Host beside a complete set for a subprocess changes
// nothing: a host that runs below another one belongs to that one.
func Parse(block []byte) (Identity, error) {
	var s set
	for rest := block; ; {
		i := bytes.Index(rest, []byte(Prefix))
		if i < 0 {
			break
		}
		starts := i == 0 && len(rest) == len(block) || i > 0 && rest[i-1] == 0
		entry := rest[i:]
		if !starts {
			rest = entry[len(Prefix):]
			continue
		}
		end := bytes.IndexByte(entry, 0)
		if end < 0 {
			end = len(entry)
		}
		if v, value, ok := split(entry[:end]); ok {
			s.add(v, value)
		}
		// The NUL stays, so that the next entry is seen to begin after it.
		rest = entry[end:]
	}
	return s.identity()
}

// ParseList reads the identity out of a list of NAME=value, as os.Environ
// returns it, by the rules of Parse.
func ParseList(env []string) (Identity, error) {
	var s set
	for _, entry := range env {
		if v, value, ok := split(entry); ok {
			s.add(v, []byte(value))
		}
	}
	return s.identity()
}

// Scan reports whether an environment block holds a marker variable, complete
// or not. A value that merely contains the name of one does not count. It is
// the inner loop of a scan of all processes: it allocates nothing and costs
// one pass of bytes.Index over a block that has none.
func Scan(block []byte) bool {
	for rest, first := block, true; ; first = false {
		i := bytes.Index(rest, []byte(Prefix))
		if i < 0 {
			return false
		}
		if i == 0 && first || i > 0 && rest[i-1] == 0 {
			// Not farther than the longest name: a hostile block must not
			// make this quadratic.
			entry := rest[i:min(i+len(Installation)+1, len(rest))]
			if _, _, ok := split(entry); ok {
				return true
			}
		}
		rest = rest[i+len(Prefix):]
	}
}

// split cuts an entry of an environment if it is a marker variable.
func split[T string | []byte](entry T) (variable, T, bool) {
	var none T
	eq := indexEqual(entry)
	if eq < 0 {
		return 0, none, false
	}
	v, ok := lookup(entry[:eq])
	if !ok {
		return 0, none, false
	}
	return v, entry[eq+1:], true
}

func indexEqual[T string | []byte](entry T) int {
	for i := range len(entry) {
		if entry[i] == '=' {
			return i
		}
	}
	return -1
}

// set collects the marker variables of one environment.
type set struct {
	count [numVariables]int
	value [numVariables][]byte
}

func (s *set) add(v variable, value []byte) {
	s.count[v]++
	s.value[v] = value
}

func (s *set) has(v variable) bool { return s.count[v] > 0 }

// identity judges what was collected.
func (s *set) identity() (Identity, error) {
	marked := false
	for v := range numVariables {
		switch {
		case s.count[v] == 0:
			continue
		case s.count[v] > 1:
			return Identity{}, malformed("%s is set %d times", v.name(), s.count[v])
		case len(s.value[v]) == 0:
			return Identity{}, malformed("%s is empty", v.name())
		}
		marked = true
	}
	switch {
	case !marked:
		return Identity{}, ErrUnmarked
	case s.has(varSubprocess):
		return s.subprocess()
	case s.has(varHost):
		return s.host()
	}
	return Identity{}, malformed("neither %s nor %s is set", Subprocess, Host)
}

func (s *set) host() (Identity, error) {
	for v := range numVariables {
		if v != varHost && s.has(v) {
			return Identity{}, malformed("%s is set beside %s, without %s", v.name(), Host, Subprocess)
		}
	}
	return Identity{Kind: KindHost, Installation: string(s.value[varHost])}, nil
}

func (s *set) subprocess() (Identity, error) {
	if string(s.value[varSubprocess]) != SubprocessValue {
		return Identity{}, malformed("%s is not %q", Subprocess, SubprocessValue)
	}
	id := Identity{
		Installation: string(s.value[varInstallation]),
		Instance:     string(s.value[varInstance]),
	}
	switch mcp, agent := s.has(varMCPService), s.has(varAgent); {
	case mcp && agent:
		return Identity{}, malformed("both %s and %s are set", MCPService, Agent)
	case mcp:
		id.Kind, id.Service = KindMCP, string(s.value[varMCPService])
	case agent:
		id.Kind, id.Service = KindAgent, string(s.value[varAgent])
	default:
		return Identity{}, malformed("neither %s nor %s is set", MCPService, Agent)
	}
	for _, v := range []variable{varInstallation, varInstance} {
		if !s.has(v) {
			return Identity{}, malformed("%s is not set", v.name())
		}
	}
	return id, nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}
