package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
)

func whole() Service {
	return Service{
		Kind: KindMCP, Name: "clock",
		Command: []string{"bin/clock", "-v"}, Path: "/opt/bin/clock", Dir: "/opt",
		Env: map[string]string{"TOKEN": "secret", "LOG": "debug"}, Inherit: []string{"PATH", "HOME"}, Port: 8101,
		DependsOn:    []Ref{{KindMCP, "a"}, {KindAgent, "b"}},
		ReadyTimeout: time.Second, Restart: defaultRestart(), Health: defaultHealth(), StopGrace: time.Second,
		Tools: Tools{Allow: []string{"x", "y"}, Deny: []string{"z"}},
		Range: hcl.Range{Filename: "services.hcl"},
	}
}

func TestCompare(t *testing.T) {
	tests := []struct {
		name              string
		change            func(*Service)
		replaces, inPlace []string
	}{
		{"nothing", func(*Service) {}, nil, nil},
		{"another place in the files", func(s *Service) { s.Range = hcl.Range{Filename: "other.hcl"} }, nil, nil},
		{"another argument", func(s *Service) { s.Command = []string{"bin/clock", "-q"} }, []string{"command"}, nil},
		{"arguments in another order", func(s *Service) { s.Command = []string{"-v", "bin/clock"} }, []string{"command"}, nil},
		{"the same name found elsewhere", func(s *Service) { s.Path = "/usr/bin/clock" }, []string{"command"}, nil},
		{"a server in place of a plugin", func(s *Service) { s.Exec, s.Command, s.Sessions = s.Command, nil, SessionsShared }, []string{"command", "exec", "sessions"}, nil},
		{"headers", func(s *Service) { s.Headers = map[string]string{"Authorization": "secret"} }, []string{"headers.Authorization"}, nil},
		{"sessions", func(s *Service) { s.Sessions = SessionsIsolated }, []string{"sessions"}, nil},
		{"another directory", func(s *Service) { s.Dir = "/" }, []string{"dir"}, nil},
		{"a variable's value", func(s *Service) { s.Env = map[string]string{"TOKEN": "new", "LOG": "debug"} }, []string{"env.TOKEN"}, nil},
		{"a variable more and one less", func(s *Service) { s.Env = map[string]string{"TOKEN": "secret", "MORE": ""} }, []string{"env.LOG", "env.MORE"}, nil},
		{"no variables", func(s *Service) { s.Env = nil }, []string{"env.LOG", "env.TOKEN"}, nil},
		{"inherited in another order", func(s *Service) { s.Inherit = []string{"HOME", "PATH", "HOME"} }, nil, nil},
		{"one inherited more", func(s *Service) { s.Inherit = []string{"HOME", "PATH", "LANG"} }, []string{"inherit"}, nil},
		{"another port", func(s *Service) { s.Port = 1 }, []string{"port"}, nil},
		{"dependencies in another order", func(s *Service) { s.DependsOn = []Ref{{KindAgent, "b"}, {KindMCP, "a"}} }, nil, nil},
		{"a dependency less", func(s *Service) { s.DependsOn = s.DependsOn[:1] }, nil, []string{"depends_on"}},
		{"a dependency of another kind", func(s *Service) { s.DependsOn = []Ref{{KindMCP, "a"}, {KindMCP, "b"}} }, nil, []string{"depends_on"}},
		{"time limits", func(s *Service) { s.ReadyTimeout, s.StopGrace = 0, 0 }, nil, []string{"ready.timeout", "stop.grace"}},
		{"health", func(s *Service) { s.Health = Health{} }, nil, []string{"health.interval", "health.timeout", "health.failures"}},
		{"restart", func(s *Service) { s.Restart.Policy, s.Restart.Limit = RestartNever, 1 }, nil, []string{"restart.policy", "restart.limit"}},
		{"tools in another order", func(s *Service) { s.Tools.Allow = []string{"y", "x"} }, nil, nil},
		{"tools", func(s *Service) { s.Tools = Tools{} }, nil, []string{"tools.allow", "tools.deny"}},
		{"both", func(s *Service) { s.Port, s.StopGrace = 0, 0 }, []string{"port"}, []string{"stop.grace"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			changed := whole()
			test.change(&changed)
			for _, pair := range [][2]Service{{whole(), changed}, {changed, whole()}} {
				got := Compare(pair[0], pair[1])
				if !slices.Equal(got.Replaces, test.replaces) || !slices.Equal(got.InPlace, test.inPlace) {
					t.Errorf("replaces %v, in place %v; want %v, %v", got.Replaces, got.InPlace, test.replaces, test.inPlace)
				}
				if got.IsZero() != (len(test.replaces)+len(test.inPlace) == 0) {
					t.Errorf("IsZero is %v of %v", got.IsZero(), got)
				}
				if text := fmt.Sprint(got); strings.Contains(text, "secret") || strings.Contains(text, "new") {
					t.Errorf("a variable's value is told: %s", text)
				}
			}
		})
	}
}

func TestCompareHost(t *testing.T) {
	before := Host{Listen: "a", StateDir: "b", LogLevel: "info", StartLimit: 1, ShutdownTimeout: 1, Control: Control{Group: "g"}}
	if got := CompareHost(before, before); len(got.Restart)+len(got.InPlace) != 0 {
		t.Errorf("of the same there is %v", got)
	}
	got := CompareHost(before, Host{})
	if !slices.Equal(got.Restart, []string{"listen", "state_dir", "control.group"}) || !slices.Equal(got.InPlace, []string{"log_level", "start_limit", "shutdown.timeout"}) {
		t.Errorf("of all that can change there is %v", got)
	}
}

func TestCompareGateways(t *testing.T) {
	with := func(change func(*Gateway)) Host {
		g := Gateway{
			TLS:    TLS{Certificate: "c", Key: "k"},
			Tokens: []Token{{Name: "alice", Digest: [32]byte{1}}, {Name: "bob", Digest: [32]byte{2}}},
		}
		change(&g)
		return Host{Gateway: g}
	}
	tests := []struct {
		name             string
		change           func(*Gateway)
		restart, inPlace []string
	}{
		{"nothing", func(*Gateway) {}, nil, nil},
		{"tokens in another order", func(g *Gateway) { slices.Reverse(g.Tokens) }, nil, nil},
		{"a token is rotated", func(g *Gateway) { g.Tokens[1].Digest = [32]byte{3} }, nil, []string{"gateway.token.bob"}},
		{"a token may do more", func(g *Gateway) { g.Tokens[0].Access.Metrics = true }, nil, []string{"gateway.token.alice"}},
		{"no tokens", func(g *Gateway) { g.Tokens = nil }, nil, []string{"gateway.token.alice", "gateway.token.bob"}},
		{"another certificate", func(g *Gateway) { g.TLS.Certificate = "d" }, nil, []string{"gateway.tls"}},
		{"no TLS", func(g *Gateway) { g.TLS = TLS{} }, []string{"gateway.tls"}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := CompareHost(with(func(*Gateway) {}), with(test.change))
			if !slices.Equal(got.Restart, test.restart) || !slices.Equal(got.InPlace, test.inPlace) {
				t.Errorf("restart %v, in place %v; want %v, %v", got.Restart, got.InPlace, test.restart, test.inPlace)
			}
		})
	}
}

// TestEveryAttributeIsDecidedOn changes field by field. One that is new in the
// schema fails it, until compare.go says whether it needs a new process.
func TestEveryAttributeIsDecidedOn(t *testing.T) {
	// What is no attribute: the name of the service, and where it stands.
	none := []string{"Kind", "Name", "Range", "Sensitive"}
	changes := func(path string) bool {
		return !slices.Contains(none, strings.SplitN(path, ".", 2)[0])
	}
	eachField(t, Service{}, func(path string, after Service) {
		if got := len(Compare(Service{}, after).All()); changes(path) && got != 1 || !changes(path) && got != 0 {
			t.Errorf("a change of %s changes %d attributes: see serviceAttributes", path, got)
		}
	})
	eachField(t, Host{}, func(path string, after Host) {
		if d := CompareHost(Host{}, after); len(d.Restart)+len(d.InPlace) != 1 {
			t.Errorf("a change of %s changes %v: see hostAttributes", path, d)
		}
	})
}

// TestTheHashAgreesWithWhatReplaces has a change need a new instance by both or
// by neither.
func TestTheHashAgreesWithWhatReplaces(t *testing.T) {
	eachField(t, Service{}, func(path string, after Service) {
		if path == "Kind" || path == "Name" {
			return // another service
		}
		if hash, replaces := after.Hash() != (Service{}).Hash(), len(Compare(Service{}, after).Replaces) > 0; hash != replaces {
			t.Errorf("a change of %s changes the hash: %v; needs a new instance: %v", path, hash, replaces)
		}
	})
}

// eachField calls try with each field of zero set to another value, those of
// structs in it one by one.
func eachField[T any](t *testing.T, zero T, try func(path string, changed T)) {
	t.Helper()
	var visit func(index []int, typ reflect.Type, path string)
	visit = func(index []int, typ reflect.Type, path string) {
		if typ.Kind() == reflect.Struct {
			for i := range typ.NumField() {
				below := typ.Field(i).Name
				if path != "" {
					below = path + "." + below
				}
				visit(append(slices.Clone(index), i), typ.Field(i).Type, below)
			}
			return
		}
		changed := zero
		setToSomething(t, reflect.ValueOf(&changed).Elem().FieldByIndex(index), path)
		try(path, changed)
	}
	visit(nil, reflect.TypeFor[T](), "")
}

func setToSomething(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	default:
		t.Fatalf("teach this test to change %s, which is a %s", path, v.Kind())
	}
}

func TestChangesAreShownAsTheyWouldBeWritten(t *testing.T) {
	before, after := whole(), whole()
	after.Port, after.StopGrace, after.Restart.Limit = 0, 2*time.Second, 0
	after.Env = map[string]string{"TOKEN": "new"}
	after.Inherit = nil
	after.Limits.Memory = 1 << 20
	after.Command, after.Sensitive = []string{"bin/clock", "hunter2"}, []string{"command"}
	want := []Change{
		{"command", `["bin/clock", "-v"]`, "(sensitive value)"},
		{"inherit", `["PATH", "HOME"]`, "[]"},
		{"port", "8101", "null"},
		{"limits.memory", "null", `"1MiB"`},
		{"restart.limit", "10", "0"},
		{"stop.grace", `"1s"`, `"2s"`},
	}
	if got := Compare(before, after).Changes; !slices.Equal(got, want) {
		t.Errorf("the changes are %q, want %q", got, want)
	}
}

func TestSensitiveAttributesAreKnown(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(`variable "token" {| sensitive=true| default="hunter2"|}|locals {| port=sensitive(8101)|}|@ env={LOG="x","A.B"="Bearer ${var.token}",(upper("key"))=var.token}| port=local.port| stop {|  grace="${1+length(var.token)}s"| }|}|service "mcp" "b" {| command=["sh",var.token]| env=merge({A=1},{B=var.token})| inherit=["HOME"]|}`))
	good(t, cfg, diags)
	for ref, want := range map[string][]string{"mcp.a": {"env.A.B", "env.KEY", "port", "stop.grace"}, "mcp.b": {"command", "env"}} {
		s := service(t, cfg, ref)
		if !slices.Equal(s.Sensitive, want) {
			t.Errorf("of %s %q are sensitive, want %q", ref, s.Sensitive, want)
		}
		if s.IsSensitive("dir") || !s.IsSensitive(want[0]) || s.IsSensitive("env.A") != (ref == "mcp.b") {
			t.Errorf("of %s other attributes are sensitive", ref)
		}
	}
}
