package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Difference says in which attributes two declarations of a service differ, by
// the names that they have in a file, such as restart.policy. Of variables,
// headers and settings of a plugin only the names are told, as in env.TOKEN,
// never the values.
type Difference struct {
	// Replaces are the attributes that an instance was made from: another value
	// needs another instance.
	Replaces []string
	// InPlace are those that the host can change while the instance runs.
	InPlace []string
	// Changes are the values of those that can be shown.
	Changes []Change
}

// Change is what an attribute was and is, as it would be written.
type Change struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// IsZero reports whether there is no difference.
func (d Difference) IsZero() bool { return len(d.Replaces) == 0 && len(d.InPlace) == 0 }

// All returns all attributes that differ.
func (d Difference) All() []string { return slices.Concat(d.Replaces, d.InPlace) }

// Compare says what changed between two declarations of the same service. Order
// does not count where it has no meaning, and neither does the place in the
// files.
//
// What a service inherits is compared by the names alone: the environment of a
// host does not change, and so neither do the values while it runs.
func Compare(before, after Service) Difference {
	d := compare(before, after, serviceAttributes)
	for i, c := range d.Changes {
		if before.IsSensitive(c.Name) {
			d.Changes[i].Before = sensitiveValue
		}
		if after.IsSensitive(c.Name) {
			d.Changes[i].After = sensitiveValue
		}
	}
	return d
}

// HostDifference says in which settings of the host two configurations differ.
type HostDifference struct {
	// Restart are those that take effect when the host is started again.
	Restart []string
	// InPlace are those that a running host can change.
	InPlace []string
}

// CompareHost says what changed between two host blocks.
func CompareHost(before, after Host) HostDifference {
	d := compare(before, after, hostAttributes)
	return HostDifference{Restart: d.Replaces, InPlace: d.InPlace}
}

// attribute is one that may differ between two values of T. Every field of T is
// in one of them, or is no attribute.
type attribute[T any] struct {
	name string
	// replaces is whether what runs has to be replaced for it.
	replaces bool
	// differs returns what differs: names below that of the attribute or, if it
	// has none below it, an empty one.
	differs func(before, after T) []string
	// show returns the value as it would be written. Where it is nil no value
	// is shown, only that it differs.
	show func(T) string
}

const (
	replaces = true
	inPlace  = false
)

// serviceAttributes are decided on here, one by one: does a new value need a
// new process?
var serviceAttributes = []attribute[Service]{
	{name: "command", replaces: replaces, differs: func(a, b Service) []string {
		moved := a.Path != b.Path && a.Exec == nil && b.Exec == nil
		return whether(moved || !slices.Equal(a.Command, b.Command))
	}, show: func(s Service) string { return shown(s.Command) }},
	{name: "exec", replaces: replaces, differs: func(a, b Service) []string {
		moved := a.Path != b.Path && a.Exec != nil && b.Exec != nil
		return whether(moved || !slices.Equal(a.Exec, b.Exec))
	}, show: func(s Service) string { return shown(s.Exec) }},
	value("sessions", replaces, func(s Service) any { return unset(s.Sessions) }),
	{name: "url", replaces: replaces, differs: func(a, b Service) []string { return whether(a.URL != b.URL) }}, // it may hold a secret
	{name: "headers", replaces: replaces, differs: func(a, b Service) []string { return names(a.Headers, b.Headers) }},
	value("dir", replaces, func(s Service) string { return s.Dir }),
	{name: "env", replaces: replaces, differs: func(a, b Service) []string { return names(a.Env, b.Env) }},
	list("inherit", replaces, func(s Service) []string { return s.Inherit }),
	value("port", replaces, func(s Service) any { return unset(s.Port) }),
	value("checksum", replaces, func(s Service) any { return unset(s.Checksum) }),
	{name: "user", replaces: replaces, differs: func(a, b Service) []string { return whether(!reflect.DeepEqual(a.Account, b.Account)) }},
	value("no_new_privs", replaces, func(s Service) bool { return s.NoNewPrivs }),
	value("limits.memory", replaces, func(s Service) any { return unset(s.Limits.Memory) }),
	value("limits.cpus", replaces, func(s Service) any { return unset(s.Limits.CPUs) }),
	value("limits.processes", replaces, func(s Service) any { return unset(s.Limits.Processes) }),
	value("limits.open_files", replaces, func(s Service) any { return unset(s.Limits.OpenFiles) }),
	{name: "limits.nice", replaces: replaces, differs: func(a, b Service) []string { return whether(!reflect.DeepEqual(a.Limits.Nice, b.Limits.Nice)) }},
	{name: "config", replaces: replaces, differs: func(a, b Service) []string { return changedSettings(a.Config, b.Config) }},
	value("on_host_exit", replaces, func(s Service) string { return s.OnHostExit }),
	value("orphan_ttl", replaces, func(s Service) any { return unset(s.OrphanTTL) }),
	list("depends_on", inPlace, func(s Service) []string { return refNames(s.DependsOn) }),
	value("ready.timeout", inPlace, func(s Service) any { return s.ReadyTimeout }),
	value("health.interval", inPlace, func(s Service) any { return s.Health.Interval }),
	value("health.timeout", inPlace, func(s Service) any { return s.Health.Timeout }),
	value("health.failures", inPlace, func(s Service) any { return s.Health.Failures }),
	value("restart.policy", inPlace, func(s Service) any { return s.Restart.Policy }),
	value("restart.delay", inPlace, func(s Service) any { return s.Restart.Delay }),
	value("restart.factor", inPlace, func(s Service) any { return s.Restart.Factor }),
	value("restart.max_delay", inPlace, func(s Service) any { return s.Restart.MaxDelay }),
	value("restart.jitter", inPlace, func(s Service) any { return s.Restart.Jitter }),
	value("restart.reset_after", inPlace, func(s Service) any { return s.Restart.ResetAfter }),
	value("restart.limit", inPlace, func(s Service) any { return s.Restart.Limit }),
	value("restart.within", inPlace, func(s Service) any { return s.Restart.Within }),
	value("stop.grace", inPlace, func(s Service) any { return s.StopGrace }),
	list("tools.allow", inPlace, func(s Service) []string { return s.Tools.Allow }),
	list("push.allow", inPlace, func(s Service) []string { return s.Push.Allow }),
	list("tools.deny", inPlace, func(s Service) []string { return s.Tools.Deny }),
}

// hostAttributes are decided on here, one by one: can a running host take a new
// value?
var hostAttributes = []attribute[Host]{
	value("listen", replaces, func(h Host) any { return h.Listen }),
	value("state_dir", replaces, func(h Host) any { return h.StateDir }),
	value("log_level", inPlace, func(h Host) any { return h.LogLevel }),
	value("logs.max_size", replaces, func(h Host) any { return h.Logs.MaxSize }),
	value("logs.max_files", replaces, func(h Host) any { return h.Logs.MaxFiles }),
	value("start_limit", inPlace, func(h Host) any { return h.StartLimit }),
	value("control.group", replaces, func(h Host) any { return h.Control }),
	value("shutdown.timeout", inPlace, func(h Host) any { return h.ShutdownTimeout }),
	list("gateway.hosts", inPlace, func(h Host) []string { return h.Gateway.Hosts }),
	list("gateway.origins", inPlace, func(h Host) []string { return h.Gateway.Origins }),
	value("gateway.url", inPlace, func(h Host) any { return h.Gateway.URL }),
	value("gateway.plain_http", inPlace, func(h Host) bool { return h.Gateway.PlainHTTP }),
	value("gateway.tls", replaces, func(h Host) bool { return h.Gateway.TLS == TLS{} }),
	{name: "gateway.tls", replaces: inPlace, differs: func(a, b Host) []string {
		before, after := a.Gateway.TLS, b.Gateway.TLS
		return whether(before != after && before != TLS{} && after != TLS{})
	}},
	value("gateway.limits.body", inPlace, func(h Host) int64 { return h.Gateway.Limits.Body }),
	value("gateway.limits.headers", replaces, func(h Host) int64 { return h.Gateway.Limits.Headers }),
	value("gateway.limits.requests", inPlace, func(h Host) int { return h.Gateway.Limits.Requests }),
	value("gateway.limits.listeners", inPlace, func(h Host) int { return h.Gateway.Limits.Listeners }),
	value("gateway.limits.connections", replaces, func(h Host) int { return h.Gateway.Limits.Connections }),
	value("gateway.limits.sessions", replaces, func(h Host) int { return h.Gateway.Limits.Sessions }),
	value("gateway.limits.session_idle", replaces, func(h Host) any { return h.Gateway.Limits.SessionIdle }),
	{name: "gateway.token", replaces: inPlace, differs: func(a, b Host) []string { return names(tokensByName(a), tokensByName(b)) }},
}

func compare[T any](before, after T, attributes []attribute[T]) Difference {
	var d Difference
	for _, a := range attributes {
		list := &d.InPlace
		if a.replaces {
			list = &d.Replaces
		}
		for _, below := range a.differs(before, after) {
			name := a.name
			if below != "" {
				name += "." + below
			}
			*list = append(*list, name)
			if a.show != nil {
				d.Changes = append(d.Changes, Change{Name: name, Before: a.show(before), After: a.show(after)})
			}
		}
	}
	return d
}

// value makes an attribute that is one comparable value.
func value[T any, V comparable](name string, replaces bool, of func(T) V) attribute[T] {
	return attribute[T]{
		name: name, replaces: replaces,
		differs: func(a, b T) []string { return whether(of(a) != of(b)) },
		show:    func(v T) string { return shown(of(v)) },
	}
}

// list makes an attribute that is a list whose order has no meaning.
func list[T any](name string, replaces bool, of func(T) []string) attribute[T] {
	return attribute[T]{
		name: name, replaces: replaces,
		differs: func(a, b T) []string { return whether(!slices.Equal(set(of(a)), set(of(b)))) },
		show:    func(v T) string { return shown(of(v)) },
	}
}

// shown writes a value as in a file; null is what is not set.
func shown(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case []string:
		words := make([]string, len(v))
		for i, word := range v {
			words[i] = quote(word)
		}
		return "[" + strings.Join(words, ", ") + "]"
	case string:
		return quote(v)
	case time.Duration:
		return quote(v.String())
	case int64: // a size
		return quote(sizeText(v))
	default:
		return fmt.Sprint(v)
	}
}

// unset is a value, or nil for the zero value, which stands for none.
func unset[V comparable](v V) any {
	var none V
	if v == none {
		return nil
	}
	return v
}

func whether(differs bool) []string {
	if differs {
		return []string{""}
	}
	return nil
}

// names returns those under which two maps do not have the same.
func names[V any](a, b map[string]V) []string {
	found := make(map[string]bool)
	for name, value := range a {
		if other, ok := b[name]; !ok || !reflect.DeepEqual(other, value) {
			found[name] = true
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func tokensByName(h Host) map[string]Token {
	tokens := make(map[string]Token)
	for _, token := range h.Gateway.Tokens {
		tokens[token.Name] = token
	}
	return tokens
}

// set is a list without its order and its duplicates.
func set(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}

func refNames(refs []Ref) []string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = ref.String()
	}
	return names
}
