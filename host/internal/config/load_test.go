package config

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

// good fails the test unless there is a configuration.
func good(t *testing.T, cfg *Config, diags *Diagnostics) *Config {
	t.Helper()
	if err := diags.Err(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func service(t *testing.T, cfg *Config, ref string) Service {
	t.Helper()
	kind, name, _ := strings.Cut(ref, ".")
	s, ok := cfg.Service(Ref{Kind: Kind(kind), Name: name})
	if !ok {
		t.Fatalf("%s is missing", ref)
	}
	return s
}

func TestByteOrderMarkAndCRLFAreAccepted(t *testing.T) {
	text := "\ufeff" + strings.ReplaceAll(written(`service mcp a {| command=["sh"]| port="8101"|}|`), "\n", "\r\n")
	cfg, diags := loadText(t, "services.hcl", text)
	good(t, cfg, diags)
	if got := service(t, cfg, "mcp.a").Port; got != 8101 {
		t.Errorf("port is %d", got)
	}
}

func TestPositionsAreRightAfterByteOrderMarkAndCRLF(t *testing.T) {
	text := "\ufeff" + strings.ReplaceAll(written(`service mcp a {| command=["sh"]| port=0|}|`), "\n", "\r\n")
	_, diags := loadText(t, "services.hcl", text)
	wantFindings(t, diags, at("3,7-8", "port"))
	if got := text[diags.All()[0].Range.Start.Byte:diags.All()[0].Range.End.Byte]; got != "0" {
		t.Errorf("the range covers %q", got)
	}
}

func TestTemplateEscapesReachTheProgram(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(`service "mcp" "a" {| command=["sh","$${HOME} $HOME 100%% %%{x} $$${y}"]|}`))
	good(t, cfg, diags)
	if got, want := service(t, cfg, "mcp.a").Command[1], "${HOME} $HOME 100%% %{x} $${y}"; got != want {
		t.Errorf("the argument is %q, want %q", got, want)
	}
}

func TestIndentedHeredocLosesItsCommonIndent(t *testing.T) {
	text := written(`service "mcp" "a" {| command=["sh","-c",<<-EOT|    if true|      then true||    fi|    EOT|  ]|}|`)
	for _, eol := range []string{"\n", "\r\n"} {
		cfg, diags := loadText(t, "services.hcl", strings.ReplaceAll(text, "\n", eol))
		good(t, cfg, diags)
		want := strings.ReplaceAll("if true\n  then true\n\nfi\n", "\n", eol)
		if got := service(t, cfg, "mcp.a").Command[2]; got != want {
			t.Errorf("the argument is %q, want %q", got, want)
		}
	}
}

func TestNullIsTheSameAsAbsent(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(
		`host {| listen=null| state_dir=null| log_level=null|}|@ port=false ? 1 : null| dir=null| env={A=null,B=true,("c.d")=2}| inherit=null| depends_on=null| ready {|  timeout=null| }| tools {|  allow=null| }|}`))
	good(t, cfg, diags)
	got := service(t, cfg, "mcp.a")
	if want := map[string]string{"B": "true", "c.d": "2"}; !reflect.DeepEqual(got.Env, want) {
		t.Errorf("env is %v, want %v", got.Env, want)
	}
	if got.Port != 0 || got.ReadyTimeout != 10*time.Second || !reflect.DeepEqual(got.Tools.Allow, []string{"*"}) {
		t.Errorf("defaults do not hold: %+v", got)
	}
	if cfg.Host.Listen != "127.0.0.1:7433" || cfg.Host.StateDir != "" || cfg.Host.LogLevel != "info" {
		t.Errorf("defaults do not hold: %+v", cfg.Host)
	}
}

func TestNumbersKeepTheirDigits(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(`service "mcp" "a" {| command=["sh",9007199254740993,5/2]| port=08101| env={N="${9007199254740993}!"}|}`))
	good(t, cfg, diags)
	got := service(t, cfg, "mcp.a")
	if want := []string{"sh", "9007199254740993", "2.5"}; !reflect.DeepEqual(got.Command, want) {
		t.Errorf("command is %q, want %q", got.Command, want)
	}
	if got.Port != 8101 || got.Env["N"] != "9007199254740993!" {
		t.Errorf("port %d, env %v", got.Port, got.Env)
	}
}

func TestDefaults(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(`@}|service "agent" "b" {| command=["sh"]|}`))
	good(t, cfg, diags)
	wantHost := Host{
		Listen: "127.0.0.1:7433", ShutdownTimeout: 30 * time.Second, LogLevel: "info", StartLimit: 16,
		Logs:    Logs{MaxSize: 10 << 20, MaxFiles: 5},
		Gateway: Gateway{Limits: defaultGatewayLimits()},
	}
	if !reflect.DeepEqual(cfg.Host, wantHost) {
		t.Errorf("host is %+v, want %+v", cfg.Host, wantHost)
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	a := service(t, cfg, "mcp.a")
	want := Service{
		Kind: KindMCP, Name: "a", Command: []string{"sh"}, Path: a.Path, Dir: dir, Env: map[string]string{},
		ReadyTimeout: 10 * time.Second, StopGrace: 10 * time.Second, OnHostExit: HostExitStop,
		Health: Health{Interval: 10 * time.Second, Timeout: 2 * time.Second, Failures: 3},
		Restart: Restart{
			Policy: "always", Delay: 500 * time.Millisecond, Factor: 2, MaxDelay: 30 * time.Second,
			Jitter: 0.1, ResetAfter: 30 * time.Second, Limit: 10, Within: 10 * time.Minute,
		},
		Tools: Tools{Allow: []string{"*"}},
		Range: a.Range,
	}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("service is %+v, want %+v", a, want)
	}
	if !filepath.IsAbs(a.Path) {
		t.Errorf("path %q is not absolute", a.Path)
	}
	if b := service(t, cfg, "agent.b"); len(b.Tools.Allow) > 0 || b.Tools.Grants("a", "x") {
		t.Errorf("an agent without grants may call %v", b.Tools)
	}
}

const everything = `
host {
  listen    = "[::1]:7000"
  state_dir = "state"
  log_level = "debug"
  start_limit = 3
  shutdown { timeout = "1m" }
  logs {
    max_size  = "1MiB"
    max_files = 2
  }
  gateway {
    hosts      = ["MCP.example.org"]
    origins    = ["https://App.example.org:8443"]
    plain_http = true
    limits {
      body        = "1MiB"
      headers     = "16KiB"
      requests    = 10
      listeners   = 20
      connections  = 30
      sessions     = 40
      session_idle = "5m"
    }
    token "alice" {
      value    = "not-a-secret-at-all"
      services = ["my-*"]
      agents   = []
      metrics  = true
      tools {
        allow = ["my-clock/now"]
        deny  = ["*/convert"]
      }
    }
  }
}
service "mcp" "my-clock" {
  command    = ["bin/clock", "--utc"]
  dir        = "work"
  env        = { LOG = "debug" }
  inherit    = ["PATH", "HOME"]
  port       = 8101
  depends_on = [service.agent.planner, service.mcp["db"]]
  ready { timeout = "1.5s" }
  health {
    interval = "5s"
    timeout  = "1s"
    failures = 2
  }
  restart {
    policy      = "on-failure"
    delay       = "1s"
    factor      = 1.5
    max_delay   = "20s"
    jitter      = 0
    reset_after = "2m"
    limit       = 0
    within      = "1h"
  }
  stop { grace = "0s" }
  tools {
    allow = ["get_*"]
    deny  = ["get_secret"]
  }
}
service "agent" "planner" {
  command = ["bin/clock"]
  tools { allow = ["my-clock/*", "d?/query"] }
}
service "mcp" "db" { command = ["bin/clock"] }
`

const everythingJSON = `{
  "//": "a comment",
  "host": {
    "listen": "[::1]:7000", "state_dir": "state", "log_level": "debug", "start_limit": 3,
    "shutdown": {"timeout": "1m"},
    "logs": {"max_size": "1MiB", "max_files": 2},
    "gateway": {
      "hosts": ["MCP.example.org"], "origins": ["https://App.example.org:8443"], "plain_http": true,
      "limits": {"body": "1MiB", "headers": "16KiB", "requests": 10, "listeners": 20, "connections": 30, "sessions": 40, "session_idle": "5m"},
      "token": {
        "alice": {
          "value": "not-a-secret-at-all", "services": ["my-*"], "agents": [], "metrics": true,
          "tools": {"allow": ["my-clock/now"], "deny": ["*/convert"]}
        }
      }
    }
  },
  "service": {
    "mcp": {
      "my-clock": {
        "command": ["bin/clock", "--utc"],
        "dir": "work",
        "env": {"LOG": "debug"},
        "inherit": ["PATH", "HOME"],
        "port": 8101,
        "depends_on": ["service.agent.planner", "service.mcp[\"db\"]"],
        "ready": {"timeout": "1.5s"},
        "health": {"interval": "5s", "timeout": "1s", "failures": 2},
        "restart": {
          "policy": "on-failure", "delay": "1s", "factor": 1.5, "max_delay": "20s",
          "jitter": 0, "reset_after": "2m", "limit": 0, "within": "1h"
        },
        "stop": {"grace": "0s"},
        "tools": {"allow": ["get_*"], "deny": ["get_secret"]}
      },
      "db": {"command": ["bin/clock"]}
    },
    "agent": {
      "planner": {"command": ["bin/clock"], "tools": {"allow": ["my-clock/*", "d?/query"]}}
    }
  }
}`

// executable writes a program that can be looked for, but not usefully run.
func executable(t *testing.T, name string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	write(t, name, "#!/bin/sh\n")
	if err := os.Chmod(name, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestEveryArgumentIsRead(t *testing.T) {
	for name, text := range map[string]string{"services.hcl": everything, "services.hcl.json": everythingJSON} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			root, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			etc := filepath.Join(root, "etc")
			executable(t, filepath.Join("etc", "bin", "clock"))
			write(t, filepath.Join("etc", "work", "x"), "")
			write(t, filepath.Join("etc", name), text)
			cfg, diags := Load(filepath.Join("etc", name))
			good(t, cfg, diags)
			if len(diags.All()) > 0 {
				t.Errorf("findings: %v", diags.All())
			}
			wantHost := Host{
				Listen: "[::1]:7000", StateDir: filepath.Join(etc, "state"),
				ShutdownTimeout: time.Minute, LogLevel: "debug", StartLimit: 3, Logs: Logs{MaxSize: 1 << 20, MaxFiles: 2},
				Gateway: Gateway{
					Hosts: []string{"mcp.example.org"}, Origins: []string{"https://app.example.org:8443"}, PlainHTTP: true,
					Limits: GatewayLimits{Body: 1 << 20, Headers: 16 << 10, Requests: 10, Listeners: 20, Connections: 30, Sessions: 40, SessionIdle: 5 * time.Minute},
					Tokens: []Token{{
						Name: "alice", Digest: sha256.Sum256([]byte("not-a-secret-at-all")),
						Access: Access{
							Services: []string{"my-*"}, Agents: []string{}, Metrics: true,
							Tools: Tools{Allow: []string{"my-clock/now"}, Deny: []string{"*/convert"}},
						},
					}},
				},
			}
			if !reflect.DeepEqual(cfg.Host, wantHost) {
				t.Errorf("host is %+v, want %+v", cfg.Host, wantHost)
			}
			s := service(t, cfg, "mcp.my-clock")
			want := Service{
				Kind: KindMCP, Name: "my-clock", Command: []string{"bin/clock", "--utc"},
				Path: s.Path, Dir: filepath.Join(etc, "work"), Env: map[string]string{"LOG": "debug"},
				Inherit: []string{"PATH", "HOME"}, Port: 8101,
				DependsOn:    []Ref{{KindAgent, "planner"}, {KindMCP, "db"}},
				ReadyTimeout: 1500 * time.Millisecond, StopGrace: 0,
				OnHostExit: HostExitStop,
				Health:     Health{Interval: 5 * time.Second, Timeout: time.Second, Failures: 2},
				Restart: Restart{
					Policy: "on-failure", Delay: time.Second, Factor: 1.5, MaxDelay: 20 * time.Second,
					Jitter: 0, ResetAfter: 2 * time.Minute, Limit: 0, Within: time.Hour,
				},
				Tools: Tools{Allow: []string{"get_*"}, Deny: []string{"get_secret"}},
				Range: s.Range,
			}
			if !reflect.DeepEqual(s, want) {
				t.Errorf("service is\n%+v, want\n%+v", s, want)
			}
			if got := strings.TrimSuffix(s.Path, ".exe"); got != filepath.Join(etc, "bin", "clock") {
				t.Errorf("path is %s", s.Path)
			}
			if cfg.Files[filepath.Join("etc", name)] == nil {
				t.Error("the file is not in Files")
			}
		})
	}
}

func TestFaultsInJSONAreFoundAtTheirPlace(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []finding
	}{
		{
			"unknown property",
			`{"service":{"mcp":{"a":{|"command":["sh"],|"prot":1}}}}`,
			[]finding{at("3,1-7", `Did you mean "port"?`)},
		},
		{
			"misspelt command",
			`{"service":{"mcp":{"a":{|"comand":["sh"]}}}}`,
			[]finding{at("2,1-9", `Did you mean "command"?`)},
		},
		{
			"list that is a text",
			`{"service":{"mcp":{"a":{|"command":"sh -c x"}}}}`,
			[]finding{at("2,11-20", "list is wanted", `["sh", "-c", "x"]`)},
		},
		{
			"variables set twice",
			`{"service":{"mcp":{"a":{"command":["sh"],|"env":{"A":"1",|"A":"2"}}}}}`,
			[]finding{at("3,1-4", "already set", "2,8-11")},
		},
		{
			"arguments given twice",
			`{"service":{"mcp":{"a":{"command":["sh"],|"port":1,|"port":2}}}}`,
			[]finding{at("3,1-7", "already set")},
		},
		{
			"services declared twice",
			`{"service":{"mcp":{|"a":[{"command":["sh"]}],|"a":{"command":["sh"]}}}}`,
			[]finding{at("3,1-4", "already declared", "2,1-4")},
		},
		{
			"variables in a text",
			`{"service":{"mcp":{"a":{"command":["sh",|"echo ${HOME}"]}}}}`,
			[]finding{at("2,9-13", `no variable "HOME"`, "$${HOME}")},
		},
		{
			"variables after escapes stay in the text",
			`{"service":{"mcp":{"a":{"command":["sh",|"\n\n\n${HOME}"]}}}}`,
			[]finding{at("2,1-16", `no variable "HOME"`)},
		},
		{
			"broken template",
			`{"service":{"mcp":{"a":{"command":["sh",|"\n\n${A:-b}"]}}}}`,
			[]finding{at("2,1-14", "colon")},
		},
		{
			"references",
			`{"service":{"mcp":{"a":{"command":["sh"],|"depends_on":["service.mcp.b","x y","mcp.a",1]}}}}`,
			[]finding{
				at("2,15-30", "not declared"),
				at("2,31-36", `such as "service.mcp.clock"`),
				at("2,37-44", `write "service.mcp.a"`),
				at("2,45-46", `such as "service.mcp.clock"`),
			},
		},
		{
			"two hosts",
			`[{"host":{}},|{"host":{}}]`,
			[]finding{at("2,2-8", "only one host block", "1,3-9")},
		},
		{"broken file", `{"host":{}`, []finding{at("1,1-2", "Unclosed object")}},
		{"not an object", `true`, []finding{at("1,1-5", "Root value must be object")}},
		{"block that is a number", `{"host":1}`, []finding{at("1,9-10", "Incorrect JSON value type")}},
		{
			"too deep",
			strings.Repeat("[", 101),
			[]finding{at("1,101-102", "More than 100 open brackets")},
		},
		{
			"template that is too deep",
			`{"a":|"é${` + strings.Repeat("[", 101) + `"}`,
			[]finding{at("2,1-107", "More than 100 open brackets")},
		},
		{"huge number", `{"a":|1e1000000}`, []finding{at("2,2-10", "Number too large")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.ReplaceAll(tt.text, "|", "\n")
			_, diags := loadText(t, "services.hcl.json", text)
			wantFindings(t, diags, tt.want...)
			t.Run("after a byte order mark", func(t *testing.T) {
				_, diags := loadText(t, "services.hcl.json", "\ufeff"+text)
				wantFindings(t, diags, tt.want...)
			})
		})
	}
}

func TestDirectoryIsReadInLexicalOrderAsOneNamespace(t *testing.T) {
	t.Chdir(t.TempDir())
	block := func(name, more string) string {
		return fmt.Sprintf("service \"mcp\" %q {\n  command = [\"sh\"]\n%s}\n", name, more)
	}
	write(t, "conf/b.hcl", block("three", "")+block("four", "  depends_on = [service.mcp.one]\n"))
	write(t, "conf/a.hcl.json", `{"service":{"mcp":{"one":{"command":["sh"]},"two":{"command":["sh"]}}}}`)
	for _, passedOver := range []string{".b.hcl", "b.hcl~", "#b.hcl#", "b.hcl.bak", "notes.txt", "x.json", "sub.hcl/c.hcl", "sub/c.hcl"} {
		write(t, filepath.Join("conf", passedOver), "this is no configuration {")
	}
	cfg, diags := Load("conf")
	good(t, cfg, diags)
	var names []string
	for _, s := range cfg.Services {
		names = append(names, s.Name)
	}
	if want := []string{"one", "two", "three", "four"}; !reflect.DeepEqual(names, want) {
		t.Errorf("services are %v, want %v", names, want)
	}
	if got := service(t, cfg, "mcp.four").Range.Filename; got != filepath.Join("conf", "b.hcl") {
		t.Errorf("the file is called %s", got)
	}
}

func TestFileNamedTwiceIsReadOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "conf/a.hcl", written("@}"))
	cfg, diags := Load("conf/a.hcl", "conf", "conf/../conf/a.hcl")
	if good(t, cfg, diags); len(cfg.Services) != 1 {
		t.Errorf("there are %d services", len(cfg.Services))
	}
}

func TestFaultsOfAllFilesAreReportedInOrder(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "z.hcl", written(`@ port=0|}`))
	write(t, "conf/a.hcl", written(`service "mcp" "b" {| command=["sh"]| port=0| depends_on=[service.mcp.gone]|}`))
	write(t, "conf/b.hcl", `service "mcp" {`)
	_, diags := Load("missing.hcl", "z.hcl", "conf")
	var got []string
	for _, d := range diags.All() {
		got = append(got, filepath.ToSlash(d.Range.Filename)+":"+place(d))
	}
	// What is undeclared while a file is missing may well be declared there.
	want := []string{":", "z.hcl:3,7-8", "conf/a.hcl:3,7-8", "conf/b.hcl:1,15-16"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("findings are at %q, want %q", got, want)
	}
}

func TestUnreadablePathsSayWhy(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "services.conf", "")
	write(t, "empty/.keep", "")
	write(t, "big.hcl", strings.Repeat("#\n", maxFileSize/2+1))
	for _, tt := range []struct {
		paths []string
		says  string
		cause error
	}{
		{nil, "Name a file", nil},
		{[]string{"missing.hcl"}, `"missing.hcl"`, fs.ErrNotExist},
		{[]string{"services.conf"}, "ends in neither .hcl nor .hcl.json", nil},
		{[]string{"empty"}, "holds no file", nil},
		{[]string{"big.hcl"}, "more than 1 MiB", nil},
	} {
		cfg, diags := Load(tt.paths...)
		err := diags.Err()
		if cfg != nil || err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Load(%q) gives %v, want %q in it", tt.paths, err, tt.says)
		}
		if tt.cause != nil && !errors.Is(err, tt.cause) {
			t.Errorf("Load(%q): the cause is not %v", tt.paths, tt.cause)
		}
		var refused *Error
		if !errors.As(err, &refused) || refused.Diagnostics != diags {
			t.Errorf("Load(%q): the error does not carry the diagnostics", tt.paths)
		}
	}
}

func TestLoadSeesWhatChangedSinceTheLastLoad(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, port := range []int{8101, 8102} {
		write(t, "services.hcl", written(fmt.Sprintf("@ port=%d|}", port)))
		cfg, diags := Load("services.hcl")
		good(t, cfg, diags)
		if got := service(t, cfg, "mcp.a").Port; got != port {
			t.Errorf("port is %d, want %d", got, port)
		}
	}
}

func TestWarningsComeWithAConfiguration(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(`@ inherit=["PATH","PATH"]|}`))
	good(t, cfg, diags)
	if errors, warnings := diags.Count(); errors != 0 || warnings != 1 {
		t.Errorf("%d errors, %d warnings", errors, warnings)
	}
	if got := service(t, cfg, "mcp.a").Inherit; !reflect.DeepEqual(got, []string{"PATH"}) {
		t.Errorf("inherit is %v", got)
	}
}

// The sample of the repository is loaded as it is; programs stand in for those
// that the build puts beside it.
func TestSampleConfigurationIsGood(t *testing.T) {
	sample, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "services.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	write(t, "config/services.hcl", string(sample))
	executable(t, "bin/mcp-example")
	executable(t, "bin/agent-example")
	cfg, diags := Load("config/services.hcl")
	good(t, cfg, diags)
	if len(diags.All()) > 0 {
		t.Errorf("findings: %v", diags.All())
	}
	clock, assistant := service(t, cfg, "mcp.clock"), service(t, cfg, "agent.assistant")
	if clock.Port != 8101 || assistant.Port != 8102 {
		t.Errorf("ports are %d and %d", clock.Port, assistant.Port)
	}
	if want := [][]Ref{{clock.Ref()}, {assistant.Ref()}}; !reflect.DeepEqual(cfg.StartOrder(), want) {
		t.Errorf("start order is %v", cfg.StartOrder())
	}
	if !assistant.Tools.Grants("clock", "now") {
		t.Error("the assistant may not ask the clock")
	}
}
