package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestExpressions(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       map[string]string // variables of the service a
	}{
		{
			"locals in any order", `locals {| c="${local.b}!"| b=local.a| a=9007199254740993|}|@ env={C=local.c}|}`,
			map[string]string{"C": "9007199254740993!"},
		},
		{
			"dashes in names", `locals {| m={b-c=3}| d=local.m.b-c - 1|}|@ env={D=local.d}|}`,
			map[string]string{"D": "2"},
		},
		{
			"equality and arithmetic", `@ env={A=1=="1",B="1"+2,C=5/2}|}`,
			map[string]string{"A": "false", "B": "3", "C": "2.5"},
		},
		{
			"keys that are computed", `@ port=false ? 1 : null| env={(upper("log"))="1","a.b"=2,C=true}|}`,
			map[string]string{"LOG": "1", "a.b": "2", "C": "true"},
		},
		{
			"attributes of services that refer to each other",
			`@ env={B=service.mcp.b.port}| port=service.mcp.b.port+1|}|service "mcp" "b" {| command=["sh",service.mcp.a.env.B]| port=8200| env={A=service.mcp["a"].port}|}`,
			map[string]string{"B": "8200"},
		},
		{
			"what a service has by default, and in its blocks",
			`@ stop {|  grace="3s"| }| env={A=service.mcp.a.stop.grace,B=service.mcp.a.health.interval,C=service.mcp.a.restart.limit,D=service.mcp.a.on_host_exit,E="${coalesce(service.mcp.a.port, 1)}"}|}`,
			map[string]string{"A": "3s", "B": "10s", "C": "10", "D": "stop", "E": "1"},
		},
		{
			"a variable of every type",
			`variable "s" {| default="x"|}|variable "l" {| type=list(number)| default=["1",2]|}|variable "o" {| type=object({a=string,b=optional(number,7)})| default={a="y"}|}|variable "n" {| type=string| default="z"| nullable=false|}|@ env={S=var.s,L=join("-",[for i in var.l:i+1]),O="${var.o.a}${var.o.b}",N=var.n}|}`,
			map[string]string{"S": "x", "L": "2-3", "O": "y7", "N": "z"},
		},
		{
			"functions",
			`@ env={A=format("%s-%03d",lower("X"),7),B=jsonencode({a=[1,null]}),C=lookup(jsondecode("{\"k\":5}"),"k",0),D=join(",",sort(keys(merge({b=1},{a=2})))),E=try(tonumber("x"),9),F=can(regex("^a","ba")),G=replace("a.b",".","-"),H=length("é"),I=max(1,3,2),J=trimspace(" x "),K=substr("hello",1,3),M=env("NO_SUCH_7F3","none")}|}`,
			map[string]string{
				"A": "x-007", "B": `{"a":[1,null]}`, "C": "5", "D": "a,b", "E": "9", "F": "false", "G": "a-b", "H": "1",
				"I": "3", "J": "x", "K": "ell", "M": "none",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg, diags := loadText(t, "services.hcl", written(tt.text))
			good(t, cfg, diags)
			if got := service(t, cfg, "mcp.a").Env; !reflect.DeepEqual(got, tt.want) {
				t.Errorf("env is %v, want %v", got, tt.want)
			}
		})
	}
}

func TestPortsOfOtherServicesBecomeArguments(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(
		`service "mcp" "b" {| command=["sh",service.mcp.a.port]| port=service.mcp.a.port+1|}|@ port=08101|}`))
	good(t, cfg, diags)
	a, b := service(t, cfg, "mcp.a"), service(t, cfg, "mcp.b")
	if a.Port != 8101 || b.Port != 8102 || !slices.Equal(b.Command, []string{"sh", "8101"}) {
		t.Errorf("a has port %d, b has port %d and the command %q", a.Port, b.Port, b.Command)
	}
}

func TestJSONHasTheSameLanguage(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl.json", `{
  "variable": {"zone": {"type": "string", "default": "UTC", "validation": {"condition": "${var.zone != \"\"}", "error_message": "none"}}},
  "locals": {"base": 8100, "name": "${upper(var.zone)}"},
  "service": {"mcp": {
    "a": {"command": ["sh"], "port": "${local.base + 1}", "env": {"${local.name}_X": "${service.mcp.b.port}"}},
    "b": {"command": ["sh", "\u0024{var.zone}"], "port": 8200}
  }}
}`)
	good(t, cfg, diags)
	a := service(t, cfg, "mcp.a")
	if a.Port != 8101 || !reflect.DeepEqual(a.Env, map[string]string{"UTC_X": "8200"}) {
		t.Errorf("a has port %d and env %v", a.Port, a.Env)
	}
}

func TestFilesAreReadBesideTheFileThatNamesThem(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "conf/a.hcl", written(`@ env={A=file("text"),B=fileexists("text"),C=fileexists("conf/text")}|}`))
	write(t, "conf/text", "beside")
	cfg, diags := Load("conf")
	good(t, cfg, diags)
	want := map[string]string{"A": "beside", "B": "true", "C": "false"}
	if got := service(t, cfg, "mcp.a").Env; !reflect.DeepEqual(got, want) {
		t.Errorf("env is %v, want %v", got, want)
	}
}

const portVariable = `variable "port" {| type=number| default=1000|}|@ port=var.port|}`

func TestOrderInWhichVariablesAreGiven(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "services.hcl", written(portVariable))
	write(t, "one.hcl", "port = 3000\n")
	write(t, "two.json", `{"port": "4000"}`)
	for _, step := range []struct {
		in   Input
		env  string
		want int
	}{
		{Input{}, "", 1000},
		{Input{}, "2000", 2000},
		{Input{VarFiles: []string{"one.hcl"}}, "2000", 3000},
		{Input{VarFiles: []string{"one.hcl", "two.json"}}, "2000", 4000},
		{Input{VarFiles: []string{"two.json"}, Vars: []string{"port=5000"}}, "2000", 5000},
		{Input{Vars: []string{"port=5000", "port=6000"}}, "", 6000},
	} {
		if step.env != "" {
			t.Setenv("PLUGHOST_VAR_port", step.env)
		} else {
			os.Unsetenv("PLUGHOST_VAR_port")
		}
		step.in.Paths = []string{"services.hcl"}
		cfg, diags := step.in.Load()
		good(t, cfg, diags)
		if got := service(t, cfg, "mcp.a").Port; got != step.want {
			t.Errorf("with %+v and %q in the environment the port is %d, want %d", step.in, step.env, got, step.want)
		}
	}
}

func TestValuesFromOutsideThatCannotBe(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "services.hcl", written(`variable "port" {| type=number| default=1|}|variable "list" {| type=list(string)| default=[]|}|variable "token" {| type=list(string)| default=[]| sensitive=true|}`))
	write(t, "vars.hcl", "prot = 1\nport = local.x\nlist = [1]\n")
	write(t, "twice.hcl", "port = 1\nport = 2\n")
	write(t, "secret.hcl", "token = \"hunter2\"\n")
	write(t, "broken.hcl", "token = \"hunter2\n")
	for _, tt := range []struct {
		name string
		in   Input
		want []finding
	}{
		{"a flag for no variable", Input{Vars: []string{"prot=1"}}, []finding{at("", "not declared", `Did you mean "port"?`)}},
		{"a flag without a value", Input{Vars: []string{"port"}}, []finding{at("", "NAME=VALUE")}},
		{"a flag of the wrong type", Input{Vars: []string{"port=x"}}, []finding{at("1,10-16", "--var port: ", "a number is required")}},
		{"a flag that is no expression", Input{Vars: []string{"list=[1"}}, []finding{at("5,10-16", "--var list: ", "list(string)")}},
		{"a flag that is too deep", Input{Vars: []string{"list=" + strings.Repeat("[", 100_000)}}, []finding{at("5,10-16", "open brackets")}},
		{"a sensitive flag that is no expression", Input{Vars: []string{"token=[hunter2"}}, []finding{at("9,10-17", "sensitive")}},
		{"a file", Input{VarFiles: []string{"vars.hcl"}}, []finding{warns("1,1-5", `Did you mean "port"?`), at("2,8-13", "Variables not allowed")}},
		{"a file that says it twice", Input{VarFiles: []string{"twice.hcl"}}, []finding{at("2,1-5", "already set")}},
		{"a file with a secret of the wrong type", Input{VarFiles: []string{"secret.hcl"}}, []finding{at("1,9-18", "list of string")}},
		{"a file with a secret that is no HCL", Input{VarFiles: []string{"broken.hcl"}}, []finding{at("1,17-2,1", "string"), at("1,17-2,1", "Unterminated")}},
		{"a file of another kind", Input{VarFiles: []string{"vars.txt"}}, []finding{at("", ".hcl nor .json")}},
		{"a file that is not there", Input{VarFiles: []string{"none.hcl"}}, []finding{at("", "there is no such file")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Paths = []string{"services.hcl"}
			_, diags := tt.in.Load()
			wantFindings(t, diags, tt.want...)
			var out strings.Builder
			if err := WriteDiagnostics(&out, diags, false, 0); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(out.String(), "hunter2") {
				t.Errorf("the secret is shown:\n%s", out.String())
			}
		})
	}
}

func TestVariablesOfTheEnvironmentThatNobodyDeclaresAreIgnored(t *testing.T) {
	t.Setenv("PLUGHOST_VAR_nobody", "1")
	cfg, diags := loadText(t, "services.hcl", written(`@}`))
	good(t, cfg, diags)
	wantFindings(t, diags)
}

// What may be declared in a file that cannot be read is not reported.
func TestAMissingFileHidesNoOtherFault(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "a.hcl", written(`@ env={A=var.x,B=local.y,C=service.mcp.z.port,D=[]}|}`))
	write(t, "b.hcl", "{")
	_, diags := Input{Paths: []string{"."}, Vars: []string{"q=1"}}.Load()
	var inA []Diagnostic
	for _, d := range diags.All() {
		if filepath.Base(d.Range.Filename) == "a.hcl" {
			inA = append(inA, d)
		}
	}
	wantFindings(t, &Diagnostics{list: inA}, at("3,48-50", "env.D"))
	if len(diags.All()) != len(inA)+1 {
		t.Errorf("found %v", diags.Err())
	}
}

func TestSecretsReachTheProcessAndNothingElse(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(`variable "token" {| sensitive=true| default="hunter2"|}|locals {| header="Bearer ${var.token}"|}|@ env=merge({LOG="x"},{AUTH=local.header})|}`))
	good(t, cfg, diags)
	if got := service(t, cfg, "mcp.a").Env["AUTH"]; got != "Bearer hunter2" {
		t.Errorf("AUTH is %q", got)
	}
}

// A chain of references as long as a file allows is no deep recursion.
func TestLongChainsOfReferences(t *testing.T) {
	if testing.Short() {
		t.Skip("evaluates a large file")
	}
	var b strings.Builder
	b.WriteString("locals {\n")
	const links = 5_000
	for i := range links {
		fmt.Fprintf(&b, " l%d=local.l%d\n", i, i+1)
	}
	fmt.Fprintf(&b, " l%d=1\n}\n", links)
	cfg, diags := loadText(t, "services.hcl", b.String()+written(`@ port=local.l0|}`))
	good(t, cfg, diags)
	if got := service(t, cfg, "mcp.a").Port; got != 1 {
		t.Errorf("port is %d", got)
	}
}
