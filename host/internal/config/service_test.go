package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/plughost/plughost/host/internal/account"
)

func TestServiceNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "clock": true, "my-clock-2": true, strings.Repeat("a", 40): true,
		"": false, "A": false, "2a": false, "-a": false, "my_clock": false, "a__b": false, "a b": false,
		"a/b": false, "a.b": false, "é": false, strings.Repeat("a", 41): false, "a\n": false,
	} {
		text := "service \"mcp\" " + quote(name) + " {\n command=[\"sh\"]\n}\n"
		cfg, diags := loadText(t, "services.hcl", text)
		if got := cfg != nil; got != ok {
			t.Errorf("name %q is accepted: %t; %v", name, got, diags.Err())
		}
	}
}

func TestSameNameInBothKindsIsTwoServices(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(`@}|service "agent" "a" {| command=["sh"]| depends_on=[service.mcp.a]|}`))
	good(t, cfg, diags)
	if len(cfg.Services) != 2 {
		t.Errorf("there are %d services", len(cfg.Services))
	}
}

func TestAcceptedListenAddresses(t *testing.T) {
	for listen, ok := range map[string]bool{
		"127.0.0.1:7433": true, "127.9.9.9:1": true, "[::1]:7433": true, "localhost:7433": true, "127.0.0.1:0": true,
		"[::ffff:127.0.0.1]:80": true,
		"192.168.1.2:7433":      false, "[::]:7433": false, "[fe80::1%eth0]:7433": false, "127.0.0.1:http": false,
		"127.0.0.1:-1": false, "": false, "7433": false,
	} {
		cfg, diags := loadText(t, "services.hcl", "host {\n listen="+quote(listen)+"\n}\n")
		if got := cfg != nil; got != ok {
			t.Errorf("%q is accepted: %t; %v", listen, got, diags.Err())
		}
	}
}

func TestMaxDelayFollowsALongDelay(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(`@ restart {|  delay="1m"| }|}`))
	good(t, cfg, diags)
	if got := service(t, cfg, "mcp.a").Restart.MaxDelay; got != time.Minute {
		t.Errorf("max_delay is %s", got)
	}
}

func TestExpressionsMayMakeLists(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(`service "mcp" "a" {| command=[for w in ["sh","-c"] : w]| env={for k in ["A","B"] : k => "x"}| inherit=(["HOME"])|}`))
	good(t, cfg, diags)
	got := service(t, cfg, "mcp.a")
	if !reflect.DeepEqual(got.Command, []string{"sh", "-c"}) || !reflect.DeepEqual(got.Env, map[string]string{"A": "x", "B": "x"}) ||
		!reflect.DeepEqual(got.Inherit, []string{"HOME"}) {
		t.Errorf("service is %+v", got)
	}
	for text, want := range map[string]finding{
		`service "mcp" "a" {| command=[for w in ["sh",null] : w]|}`: at("2,10-36", "element 1 is null"),
		`@ env={for k in ["A"] : k => [k]}|}`:                       at("3,6-33", "env.A: a string is required"),
		`@ env={for k in ["PLUGIN_A"] : k => k}|}`:                  at("3,6-38", "Reserved"),
		`@ env="A=x"|}`:     at("3,6-11", "a map of strings is required"),
		`@ env={a.b="x"}|}`: at("3,7-10", "Ambiguous"),
		`@ env={A=B}|}`:     at("3,9-10", `write "B"`),
	} {
		_, diags := loadText(t, "services.hcl", written(text))
		wantFindings(t, diags, want)
	}
}

func TestProgramsAreFoundByNameAndByPath(t *testing.T) {
	t.Chdir(t.TempDir())
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	executable(t, "path/tool-7f3")
	executable(t, "etc/tool-7f4")
	executable(t, "bin/tool-7f5")
	t.Setenv("PATH", filepath.Join(root, "path"))
	write(t, "etc/services.hcl", `
service "mcp" "name"     { command = ["tool-7f3"] }
service "mcp" "beside"   { command = ["./tool-7f4"] }
service "mcp" "above"    { command = ["../bin/tool-7f5"] }
service "mcp" "absolute" { command = [`+quote(filepath.Join(root, "bin", "tool-7f5"))+`] }
`)
	cfg, diags := Load("etc/services.hcl")
	good(t, cfg, diags)
	for name, want := range map[string]string{
		"name": "path/tool-7f3", "beside": "etc/tool-7f4", "above": "bin/tool-7f5", "absolute": "bin/tool-7f5",
	} {
		got := strings.TrimSuffix(service(t, cfg, "mcp."+name).Path, ".exe")
		if got != filepath.Join(root, filepath.FromSlash(want)) {
			t.Errorf("%s: path is %s", name, got)
		}
	}

	write(t, "etc/services.hcl", `service "mcp" "a" { command = ["tool-7f4"] }`)
	_, diags = Load("etc/services.hcl")
	wantFindings(t, diags, at("1,32-42", "not found", `write "./tool-7f4"`))

	t.Chdir(filepath.Join(root, "path"))
	t.Setenv("PATH", ".")
	write(t, "services.hcl", `service "mcp" "a" { command = ["tool-7f3"] }`)
	_, diags = Load("services.hcl")
	wantFindings(t, diags, at("1,32-42", "not trusted"))
}

func TestScriptsThatLookForTheirInterpreter(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("scripts have no first line there")
	}
	const text = `service "mcp" "a" {| exec=["./tool"]|%s|}`
	for body, want := range map[string][]finding{
		"":                   {warns("2,7-17", "PATH", `inherit = ["PATH", "HOME"]`)},
		` inherit=["HOME"]`:  {warns("2,7-17", "PATH")},
		` inherit=["PATH"]`:  nil,
		` env={PATH="/opt"}`: nil,
	} {
		t.Chdir(t.TempDir())
		executable(t, "tool")
		write(t, "tool", "#!/usr/bin/env node\n")
		write(t, "services.hcl", written(fmt.Sprintf(text, body)))
		_, diags := Load("services.hcl")
		wantFindings(t, diags, want...)
	}
}

func TestSpecialFilesAreNoPrograms(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no /dev/null")
	}
	_, diags := loadText(t, "services.hcl", written(`service "mcp" "a" {| command=["/dev/null"]|}`))
	wantFindings(t, diags, at("2,11-22", "not a regular file"))
	if err := os.Symlink("/dev/zero", "zero.hcl"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/zero", "zero.hcl", "."} {
		_, diags := Load(path)
		if !diags.HasErrors() {
			t.Errorf("%s is read as a configuration", path)
		}
	}
}

func TestHashFollowsWhatAnInstanceIsMadeFrom(t *testing.T) {
	base := func() Service {
		return Service{
			Kind: KindMCP, Name: "a", Command: []string{"x", "y"}, Path: "/bin/x", Dir: "/",
			Env: map[string]string{"A": "1", "B": "2"}, Inherit: []string{"P", "Q"}, Port: 1,
		}
	}
	same := map[string]func(*Service){
		"nothing":            func(*Service) {},
		"order of inherit":   func(s *Service) { s.Inherit = []string{"Q", "P", "P"} },
		"position":           func(s *Service) { s.Range = hcl.Range{Filename: "x"} },
		"restart":            func(s *Service) { s.Restart.Limit = 3 },
		"time limits":        func(s *Service) { s.ReadyTimeout, s.StopGrace = 1, 1 },
		"tools":              func(s *Service) { s.Tools.Deny = []string{"*"} },
		"dependencies":       func(s *Service) { s.DependsOn = []Ref{{KindMCP, "b"}} },
		"env made otherwise": func(s *Service) { s.Env = map[string]string{"B": "2", "A": "1"} },
	}
	for name, change := range same {
		s := base()
		if change(&s); s.Hash() != base().Hash() {
			t.Errorf("%s: the hash changed", name)
		}
	}
	other := map[string]func(*Service){
		"kind":           func(s *Service) { s.Kind = KindAgent },
		"name":           func(s *Service) { s.Name = "b" },
		"argument":       func(s *Service) { s.Command[1] = "z" },
		"arguments":      func(s *Service) { s.Command = []string{"xy"} },
		"path":           func(s *Service) { s.Path = "/bin/y" },
		"dir":            func(s *Service) { s.Dir = "/tmp" },
		"env value":      func(s *Service) { s.Env["A"] = "2" },
		"env name":       func(s *Service) { delete(s.Env, "A") },
		"env shifted":    func(s *Service) { s.Env = map[string]string{"A": "1B", "2": ""} },
		"inherit":        func(s *Service) { s.Inherit = nil },
		"port":           func(s *Service) { s.Port = 2 },
		"checksum":       func(s *Service) { s.Checksum = "00" },
		"user":           func(s *Service) { s.Account = &account.Account{UID: 1} },
		"no_new_privs":   func(s *Service) { s.NoNewPrivs = true },
		"limit":          func(s *Service) { s.Limits.Memory = 1 },
		"nice":           func(s *Service) { s.Limits.Nice = new(int) },
		"words shifted":  func(s *Service) { s.Command = []string{"xy", ""} },
		"env to inherit": func(s *Service) { s.Env, s.Inherit = nil, []string{"A", "1", "B", "2", "P", "Q"} },
	}
	seen := map[string]string{base().Hash(): "base"}
	for name, change := range other {
		s := base()
		change(&s)
		if before, dup := seen[s.Hash()]; dup {
			t.Errorf("%s has the same hash as %s", name, before)
		}
		seen[s.Hash()] = name
	}
}

func TestStartOrderPutsDependenciesFirst(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(
		`@ depends_on=[service.agent.d,service.mcp.b]|}|service "mcp" "b" {| command=["sh"]| depends_on=[service.mcp.c]|}|`+
			`service "mcp" "c" {| command=["sh"]|}|service "agent" "d" {| command=["sh"]|}|service "mcp" "e" {| command=["sh"]|}`))
	good(t, cfg, diags)
	want := [][]Ref{
		{{KindMCP, "c"}, {KindAgent, "d"}, {KindMCP, "e"}},
		{{KindMCP, "b"}},
		{{KindMCP, "a"}},
	}
	if got := cfg.StartOrder(); !reflect.DeepEqual(got, want) {
		t.Errorf("start order is %v, want %v", got, want)
	}
}

func TestToolPatterns(t *testing.T) {
	for _, tt := range []struct {
		allow, deny []string
		tool        string
		want        bool
	}{
		{[]string{"*"}, nil, "now", true},
		{[]string{"*"}, nil, "files/read", true},
		{[]string{"*"}, []string{"files/*"}, "files/read", false},
		{nil, nil, "now", false},
		{[]string{"get_?"}, nil, "get_x", true},
		{[]string{"get_?"}, nil, "get_xy", false},
		{[]string{"[a-c]x"}, nil, "bx", true},
		{[]string{`\*`}, nil, "x", false},
		{[]string{`\*`}, nil, "*", true},
	} {
		if got := (Tools{Allow: tt.allow, Deny: tt.deny}).Offers(tt.tool); got != tt.want {
			t.Errorf("allow %q, deny %q: %q is offered: %t", tt.allow, tt.deny, tt.tool, got)
		}
	}
}

func TestAgentGrants(t *testing.T) {
	for _, tt := range []struct {
		allow, deny   []string
		service, tool string
		want          bool
	}{
		{nil, nil, "clock", "now", false},
		{[]string{"clock/*"}, nil, "clock", "now", true},
		{[]string{"clock/*"}, nil, "clock2", "now", false},
		{[]string{"clock/*"}, nil, "clock", "set/zone", true},
		{[]string{"*/now"}, nil, "clock", "now", true},
		{[]string{"*/*"}, []string{"clock/set_*"}, "clock", "set_zone", false},
		{[]string{"*/*"}, []string{"clock/set_*"}, "db", "set_zone", true},
		{[]string{"clock"}, nil, "clock", "now", false},
	} {
		if got := (Tools{Allow: tt.allow, Deny: tt.deny}).Grants(tt.service, tt.tool); got != tt.want {
			t.Errorf("allow %q, deny %q: %s/%s is granted: %t", tt.allow, tt.deny, tt.service, tt.tool, got)
		}
	}
}

func TestServicesThatAnAgentReaches(t *testing.T) {
	for _, tt := range []struct {
		allow, deny []string
		want        bool
	}{
		{nil, nil, false},
		{[]string{"clock/now"}, nil, true},
		{[]string{"*/now"}, nil, true},
		{[]string{"clock2/*"}, nil, false},
		{[]string{"*/*"}, []string{"clock/now"}, true},
		{[]string{"*/*"}, []string{"clo*/*"}, false},
		{[]string{"*/*"}, []string{"*/now", "clock/**"}, false},
		{[]string{"*/*"}, []string{"db/*"}, true},
	} {
		if got := (Tools{Allow: tt.allow, Deny: tt.deny}).Reach("clock"); got != tt.want {
			t.Errorf("allow %q, deny %q: the clock is reached: %t", tt.allow, tt.deny, got)
		}
	}
}

func TestSuggestions(t *testing.T) {
	kinds := []string{"mcp", "agent"}
	for _, tt := range []struct {
		given      string
		candidates []string
		want       string
	}{
		{"mpc", kinds, "mcp"},
		{"MCP", kinds, "mcp"},
		{"agnet", kinds, "agent"},
		{"agents", kinds, "agent"},
		{"server", kinds, ""},
		{"", kinds, ""},
		{"warning", []string{"warn", "error"}, "warn"},
		{"clok", []string{"clack", "clock"}, "clock"},
		{"fail", []string{"always", "on-failure", "never"}, ""},
		{"on_failure", []string{"always", "on-failure", "never"}, "on-failure"},
	} {
		if got := suggest(tt.given, tt.candidates); got != tt.want {
			t.Errorf("for %q of %q: %q, want %q", tt.given, tt.candidates, got, tt.want)
		}
	}
}
