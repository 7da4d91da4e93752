package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// written turns a case into the text of a file: | ends a line, and @ stands for
// the beginning of a good service.
func written(notation string) string {
	s := strings.ReplaceAll(notation, "@", `service "mcp" "a" {| command=["sh"]|`)
	return strings.ReplaceAll(s, "|", "\n")
}

// loadText loads one file of a directory of its own, which becomes the current
// one, so that the name of the file in messages is short.
func loadText(t *testing.T, name, text string) (*Config, *Diagnostics) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, name, text)
	return Load(name)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// finding is what a test wants to be found: a range as LINE,COL-COL or
// LINE,COL-LINE,COL, and words of the summary or the detail.
type finding struct {
	at      string
	warning bool
	says    []string
}

func at(rng string, says ...string) finding { return finding{at: rng, says: says} }

func warns(rng string, says ...string) finding {
	return finding{at: rng, warning: true, says: says}
}

func place(d Diagnostic) string {
	if !d.HasPlace() {
		return ""
	}
	s, e := d.Range.Start, d.Range.End
	if s.Line == e.Line {
		return fmt.Sprintf("%d,%d-%d", s.Line, s.Column, e.Column)
	}
	return fmt.Sprintf("%d,%d-%d,%d", s.Line, s.Column, e.Line, e.Column)
}

func wantFindings(t *testing.T, d *Diagnostics, want ...finding) {
	t.Helper()
	got := d.All()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(want):
			t.Errorf("not expected: %s", got[i].Error())
		case i >= len(got):
			t.Errorf("missing: %s %q", want[i].at, want[i].says)
		default:
			text := got[i].Summary + ": " + got[i].Detail
			if place(got[i]) != want[i].at {
				t.Errorf("finding %d is at %s, want %s: %s", i, place(got[i]), want[i].at, text)
			}
			if warning := got[i].Severity == SeverityWarning; warning != want[i].warning {
				t.Errorf("finding %d is a warning: %t, want %t: %s", i, warning, want[i].warning, text)
			}
			for _, word := range want[i].says {
				if !strings.Contains(text, word) {
					t.Errorf("finding %d does not say %q: %s", i, word, text)
				}
			}
		}
	}
}

// wantGolden compares what is printed with a file of testdata.
func wantGolden(t *testing.T, golden string, d *Diagnostics, width int) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	same := &Diagnostics{files: d.Files()}
	for _, x := range d.All() {
		x.Detail = strings.ReplaceAll(x.Detail, dir, "/etc/plughost")
		same.list = append(same.list, x)
	}
	var out bytes.Buffer
	if err := WriteDiagnostics(&out, same, false, width); err != nil {
		t.Fatal(err)
	}
	wantFile(t, golden, out.Bytes())
}

// wantFile compares what was made with a file, or writes that anew.
func wantFile(t *testing.T, golden string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("made:\n%s\nwant, as in %s:\n%s", got, golden, want)
	}
}

func goldenName(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "diagnostics", strings.ReplaceAll(name, " ", "-")+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var badCases = []struct {
	name string
	text string
	want []finding
}{
	{
		"misspelt argument is not reported as missing too",
		`service "mcp" "a" {| comand=["sh"]|}`,
		[]finding{at("2,2-8", `Did you mean "command"?`)},
	},
	{
		"port taken by another service",
		`@ port=8101|}|service "agent" "b" {| command=["sh"]| port=8100+1|}`,
		[]finding{at("7,7-13", "port 8101 is already taken", "3,7-11")},
	},
	{
		"cycle names every edge",
		`@ depends_on=[service.mcp.b]|}|service "mcp" "b" {| command=["sh"]| depends_on=[service.mcp.a]|}`,
		[]finding{at("3,14-27", "mcp.a, mcp.b, mcp.a", "3,14-27", "7,14-27")},
	},
	{
		"undeclared dependency",
		`service "mcp" "clock" {| command=["sh"]|}|@ depends_on=[service.mcp.clok]|}`,
		[]finding{at("6,14-30", "not declared", "Did you mean service.mcp.clock?")},
	},
	{
		"quoted dependency",
		`@ depends_on=["service.mcp.b"]|}`,
		[]finding{at("3,14-29", "A reference is wanted", "remove the quotes")},
	},
	{
		"shell variable in a template",
		`service "mcp" "a" {| command=["sh","-c","echo ${HOME}"]|}`,
		[]finding{at("2,29-33", "no variable", "$${HOME}")},
	},
	{
		"shell default in a template",
		`service "mcp" "a" {| command=["sh","-c","${SHELL:-sh}"]|}`,
		[]finding{at("2,29-30", "colon", "$${")},
	},
	{
		"command as one string",
		`service "mcp" "a" {| command="npx -y clock"|}`,
		[]finding{at("2,10-24", "list is wanted", "one element per argument", `command = ["npx", "-y", "clock"]`)},
	},
	{
		"variable set twice",
		`@ env={|  LOG="info"|  LOG="debug"| }|}`,
		[]finding{at("5,3-6", "already set", "4,3-6")},
	},
	{
		"two arguments on one line",
		`@ health { interval="5s", timeout="1s" }|}`,
		[]finding{at("3,24-25", "Single-line", "one argument definition per line")},
	},
	{
		"block written as an argument",
		`@ health={|  interval="5s"| }|}`,
		[]finding{at("3,2-8", `Did you mean to define a block of type "health"?`)},
	},
	{
		"duration without a unit",
		`@ health {|  interval=30| }|}`,
		[]finding{at("4,12-14", "unit is needed", `"30s"`)},
	},
	{
		"program that is not on PATH",
		`service "mcp" "a" {| command=["no-such-7f3","--stdio"]|}`,
		[]finding{at("2,11-24", `"no-such-7f3" was looked for in the directories of PATH`)},
	},
	{
		"heredoc that is never closed",
		`service "mcp" "a" {| command=["sh","-c",<<-EOT|  echo|  EOT]|}|`,
		[]finding{at("2,21-27", "never closed", "nothing but EOT", "line 4", "does not stand alone")},
	},
	{
		"block that is never closed",
		`@ port=8101|service "mcp" "b" {| command=["sh"]|}`,
		[]finding{at("1,19-20", "no closing brace")},
	},
	{
		"null in the command",
		`service "mcp" "a" {| command=["sh",null]|}`,
		[]finding{at("2,16-20", "element 1 is null")},
	},
	{
		"port that is no number",
		`@ port=1/0|}`,
		[]finding{at("3,7-10", "a whole number from 1 to 65535 is wanted")},
	},
	{
		"more than a hundred open brackets",
		strings.Repeat("[", 101),
		[]finding{at("1,101-102", "More than 100 open brackets")},
	},
	{
		"unknown kind and bad name",
		`service "mpc" "naïve 👩‍👧" {| command=["sh"]|}`,
		[]finding{at("1,9-14", "Unknown kind", `Did you mean "mcp"?`), at("1,15-24", "Not a valid name", `"na-ve"`)},
	},
	{
		"service declared twice",
		`@}|@}`,
		[]finding{at("4,1-18", "already declared", "1,1-18")},
	},
	{
		"variable that is no string",
		`@ env={A="x",B=["y"]}|}`,
		[]finding{at("3,15-20", "env.B: a string is required")},
	},
	{
		"argument written as a block",
		`@ env {|  A="x"| }|}`,
		[]finding{at("3,2-5", `Did you mean to define argument "env"?`)},
	},

	// Beyond the shapes of values: what each part of the language refuses.
	{
		"port that refers to itself",
		`@ port=service.mcp.a.port+1|}`,
		[]finding{at("3,7-20", "refers to itself")},
	},
	{
		"references to values that are not there",
		`@ env={A=service.mcp.b.port,B=service.mcp.a.prot,C=service.mcp.a,D=service.mcp.a.stop,E=service.mcp.a.stop.graze,F=service.mpc.a.port,G=service.mcp,H=service.mcp.a.depends_on,I=service.mcp[var.x].port}|}|service "agent" "b" {| command=["sh"]|}`,
		[]finding{
			at("3,9-22", "Service not declared", "Did you mean service.agent.b?"),
			at("3,30-48", "Unknown attribute", `Did you mean "port"?`),
			at("3,51-64", "An attribute is wanted", "service.mcp.a.port"),
			at("3,67-85", "An attribute is wanted", "service.mcp.a.stop.grace"),
			at("3,88-112", "Unknown attribute", `Did you mean "grace"?`),
			at("3,115-128", "Unknown kind", `Did you mean "mcp"?`),
			at("3,136-147", "A name is wanted"),
			at("3,150-174", "Not a value"),
			at("3,177-188", "cannot be computed"),
			at("3,189-194", "var.x is not declared"),
		},
	},
	{
		"cycle of locals",
		`locals {| a="x-${local.b}"| b=upper(local.c)| c=local.a|}`,
		[]finding{at("2,9-16", "local.a, local.b, local.c, local.a", "2,9-16", "3,10-17", "4,4-11")},
	},
	{
		"cycle of attributes",
		`@ port=service.mcp.b.port+1|}|service "mcp" "b" {| command=["sh"]| port=service.mcp.a.port+1|}`,
		[]finding{at("3,7-20", "service.mcp.a.port, service.mcp.b.port, service.mcp.a.port", "7,7-20")},
	},
	{
		"file of variables among the files",
		`token="hunter2"|@}`,
		[]finding{at("1,1-6", "not expected here", "--var-file")},
	},
	{
		"dash that belongs to the name",
		`locals {| base=8100|}|@ port=local.base-1|}`,
		[]finding{at("6,7-19", "local.base-1 is not declared", "write local.base - 1")},
	},
	{
		"misspelt variables and locals",
		`variable "token" {| default=""|}|locals {| base=1|}|@ env={A=var.tokn,B=local.bse,C=var,D=local[1],E=vars.token,F=base}|}`,
		[]finding{
			at("9,9-17", "Did you mean var.token?"),
			at("9,20-29", "Did you mean local.base?"),
			at("9,32-35", "A name is wanted"),
			at("9,38-43", "A name is wanted"),
			at("9,49-53", "written var.NAME"),
			at("9,62-66", "var.base"),
		},
	},
	{
		"default of the wrong type",
		`variable "port" {| type=number| default="eighty"|}`,
		[]finding{at("3,10-18", "a number is required")},
	},
	{
		"variable without a value",
		`variable "key" {| type=string|}`,
		[]finding{at("1,10-15", "not set", "--var key=VALUE", "PLUGHOST_VAR_key")},
	},
	{
		"function that fails on a sensitive value",
		`variable "token" {| sensitive=true| default="hunter2"|}|@ port=parseint(var.token,10)|}`,
		[]finding{at("7,16-25", "failed on a sensitive value")},
	},
	{
		"sensitive values that are refused",
		`variable "token" {| sensitive=true| default="hunter2"|}|@ port=var.token| dir="/${var.token}"| env={(var.token)="1",(upper(var.token))="1","A"=[var.token]}| stop {|  grace=var.token| }| limits {|  memory="${var.token}B"| }|}|service "mcp" "b" {| command=[var.token]|}|service "mcp" "c" {| command=["sh"]| port=sensitive("hunter3")|}`,
		[]finding{
			at("7,7-16", "port: the value is sensitive"),
			at("8,6-21", "sensitive"),
			at("9,50-61", "env.A: the value is sensitive"),
			at("11,9-18", "grace: the value is sensitive"),
			at("14,10-25", "memory: the value is sensitive"),
			at("18,11-20", "command: the value is sensitive"),
			at("22,7-27", "port: the value is sensitive"),
		},
	},
	{
		"sensitive argument",
		`variable "token" {| sensitive=true| default="hunter2"|}|service "mcp" "a" {| command=["sh","-c",var.token]|}`,
		[]finding{warns("6,2-9", "whoever can list the processes", "env")},
	},
	{
		"default of a sensitive variable",
		`variable "token" {| type=number| sensitive=true| default="hunter2"|}`,
		[]finding{at("4,10-19", "a number is required")},
	},
	{
		"variables that are declared wrongly",
		`variable "1x" {|}|variable "a" {| default=var.b| type="string"|}|variable "a" {| default=1|}|variable "b" {| default=null| nullable=false|}|variable "c" {| default=1| sensitive=1| validation {|  condition=true| }|}|locals {| x=1|}|locals {| x=2| y {}|}`,
		[]finding{
			at("1,10-14", "Not a valid name"),
			at("5,7-15", "type"),
			at("7,10-13", "already declared", "3,10-13"),
			at("11,10-14", "cannot be null"),
			at("16,12-13", "true or false"),
			at("17,13-13", "error_message"),
			at("25,2-3", "already declared", "22,2-3"),
			at("26,2-3", "not allowed"),
		},
	},
	{
		"default that refers to something",
		`variable "a" {| default="${var.b}!"|}|variable "b" {| default="x"|}`,
		[]finding{at("2,13-18", "cannot refer to anything")},
	},
	{
		"values that a variable refuses",
		`variable "zone" {| default="Mars"| validation {|  condition=contains(["UTC"],var.zone)|  error_message="${var.zone} is no time zone."| }|}|variable "key" {| default="hunter2"| sensitive=true| validation {|  condition=length(var.key)>8|  error_message="The key ${var.key} is too short."| }| validation {|  condition=length(var.key)>9|  error_message="Too short."| }|}`,
		[]finding{
			at("4,13-39", "Mars is no time zone."),
			at("12,13-30", "sensitive value, so it is not shown"),
			at("16,13-30", "Too short."),
		},
	},
	{
		"environment that lacks a variable",
		`@ env={URL=env("NO_SUCH_7F3")}|}`,
		[]finding{at("3,16-27", "not set", "give a default")},
	},
	{
		"files that cannot be read",
		`@ env={A=file("no-such"),B=file("."),C=fileexists("no-such")}|}`,
		[]finding{at("3,15-22", "there is no such file"), at("3,33-34", "not a regular file")},
	},
	{
		"dependency on itself",
		`@ depends_on=[service.mcp.a]|}`,
		[]finding{at("3,14-27", "refers to itself")},
	},
	{
		"dependency of the other kind",
		`@ depends_on=[service.agent.b]|}|service "mcp" "b" {| command=["sh"]|}`,
		[]finding{at("3,14-29", "Did you mean service.mcp.b?")},
	},
	{
		"references of the wrong shape",
		`@ depends_on=[mcp.b,service.mcp,service.mcp.b.port,service.mpc.b,1,"x y",service.mcp.b[0],null]|}|service "mcp" "b" {| command=["sh"]|}`,
		[]finding{
			at("3,14-19", "write service.mcp.b"),
			at("3,20-31", "such as service.mcp.clock"),
			at("3,32-50", "not a part of it", "write service.mcp.b"),
			at("3,51-64", "Unknown kind", `Did you mean "mcp"?`),
			at("3,65-66", "such as service.mcp.clock"),
			at("3,67-72", "without quotes"),
			at("3,73-89", "such as service.mcp.clock"),
			at("3,90-94", "such as service.mcp.clock"),
		},
	},
	{
		"dependencies that are no list",
		`@ depends_on=service.mcp.b|}|service "mcp" "b" {| command=["sh"]|}`,
		[]finding{at("3,13-26", "list of references")},
	},
	{
		"two cycles at once",
		`@ depends_on=[service.mcp.b,service.mcp.c]|}|service "mcp" "b" {| command=["sh"]| depends_on=[service.mcp.a]|}|service "mcp" "c" {| command=["sh"]| depends_on=[service.mcp.a,service.mcp.b]|}`,
		[]finding{
			at("3,14-27", "mcp.a, mcp.b, mcp.a"),
			at("3,28-41", "mcp.a, mcp.c, mcp.a", "11,14-27"),
		},
	},
	{
		"no command at all",
		`service "mcp" "a" {|}`,
		[]finding{at("1,19-19", "Missing command")},
	},
	{
		"commands without a program",
		`service "mcp" "a" {| command=[]|}|service "mcp" "b" {| command=[""]|}|service "mcp" "c" {| command=null|}|service "mcp" "d" {| command=[["sh"]]|}|service "mcp" "e" {| command={a="sh"}|}`,
		[]finding{
			at("2,10-12", "there is none"),
			at("5,11-13", "it is empty"),
			at("8,10-14", "it is null"),
			at("11,11-17", "command[0]: a string is required", "this is a list"),
			at("14,10-18", "A list is wanted"),
		},
	},
	{
		"programs by path",
		`service "mcp" "a" {| command=["./no-such"]|}|service "mcp" "b" {| command=["./services.hcl"]|}|service "mcp" "c" {| command=["./"]|}|service "mcp" "d" {| command=["~/x"]|}|service "mcp" "e" {| command=["sh -c true"]|}`,
		[]finding{
			at("2,11-22", "/no-such", "there is no such file"),
			at("5,11-27", "it is not executable"),
			at("8,11-15", "it is a directory"),
			at("11,11-16", "only a shell knows"),
			at("14,11-23", "a space does not separate"),
		},
	},
	{
		"words of other tools",
		`@ args=["x"]| cwd="/"| environment={}|}|service "mcp" "b" {| cmd=["sh"]|}`,
		[]finding{
			at("3,2-6", `Did you mean more elements of "command"?`),
			at("4,2-5", `Did you mean "dir"?`),
			at("5,2-13", `Did you mean "env"?`),
			at("8,2-5", `Did you mean "command"?`),
		},
	},
	{
		"arguments of later versions",
		`@ schedule="0 * * * *"| sandbox {|  network=false| }|}|module "x" {|}`,
		[]finding{at("3,2-10", "not expected here"), at("4,2-9", "not expected here"), at("8,1-7", "not expected here")},
	},
	{
		"reserved and impossible variables",
		`@ env={PLUGHOST_PORT="1",PLUGIN_X="1",""="1","A=B"="1",C="\u0000",(null)="1"}| inherit=["PLUGIN_Y","","A=B",null,"OK"]|}`,
		[]finding{
			at("3,7-20", "Reserved", "PLUGHOST_PORT"),
			at("3,25-33", "Reserved", "PLUGIN_X"),
			at("3,38-40", "cannot be empty"),
			at("3,45-50", `cannot contain "="`),
			at("3,57-65", "zero byte"),
			at("3,66-72", "a string is required", "null"),
			at("4,11-21", "Reserved", "PLUGIN_Y"),
			at("4,22-24", "cannot be empty"),
			at("4,25-30", `cannot contain "="`),
			at("4,31-35", "element 3 is null"),
		},
	},
	{
		"inherited twice",
		`@ inherit=["PATH","PATH"]|}`,
		[]finding{warns("3,18-24", "already listed", "3,11-17")},
	},
	{
		"directories",
		`@ dir="no-such"|}|service "mcp" "b" {| command=["sh"]| dir="services.hcl"|}|service "mcp" "c" {| command=["sh"]| dir=""|}|service "mcp" "d" {| command=["sh"]| dir=["x"]|}`,
		[]finding{
			at("3,6-15", "Directory not found", "/no-such"),
			at("7,6-20", "Not a directory"),
			at("11,6-8", "Empty path"),
			at("15,6-11", "dir: a string is required", "list"),
		},
	},
	{
		"ports out of range",
		`@ port=0|}|service "mcp" "b" {| command=["sh"]| port=65536|}|service "mcp" "c" {| command=["sh"]| port=80.5|}|service "mcp" "d" {| command=["sh"]| port="http"|}|service "mcp" "e" {| command=["sh"]| port=-1|}|service "mcp" "f" {| command=["sh"]| port=9007199254740993|}`,
		[]finding{
			at("3,7-8", "from 1 to 65535"), at("7,7-12", "from 1 to 65535"), at("11,7-11", "from 1 to 65535"),
			at("15,7-13", "from 1 to 65535"), at("19,7-9", "from 1 to 65535"), at("23,7-23", "from 1 to 65535"),
		},
	},
	{
		"port of the gateway",
		`host {| listen="127.0.0.1:8101"|}|@ port=8101|}`,
		[]finding{at("6,7-11", "gateway", "2,9-25")},
	},
	{
		"default port of the gateway",
		`@ port=7433|}`,
		[]finding{at("3,7-11", "gateway", "default of listen")},
	},
	{
		"durations",
		`@ ready { timeout="0s" }| stop { grace="-1s" }| restart {|  delay="30"|  max_delay="1 sec"|  reset_after="2d"|  within="soon"| }|}`,
		[]finding{
			at("3,18-22", "above zero"),
			at("4,15-20", "negative"),
			at("6,9-13", `"30s"`),
			at("7,13-20", `"1s"`),
			at("8,15-19", `"48h"`),
			at("9,10-16", `"1m30s"`),
		},
	},
	{
		"what becomes of processes without a host",
		`@ on_host_exit="leave"|}|service "mcp" "b" {| command=["sh"]| on_host_exit="kep"| orphan_ttl="1m"|}|service "mcp" "c" {| command=["sh"]| on_host_exit="keep"| orphan_ttl="10ms"|}|service "mcp" "d" {| command=["sh"]| on_host_exit="stop"| orphan_ttl="1h"|}`,
		[]finding{
			at("3,15-22", "on_host_exit can be stop or keep"),
			at("7,15-20", `Did you mean "keep"?`),
			at("13,13-19", "at least 1s"),
			at("18,13-17", `needs on_host_exit = "keep"`),
		},
	},
	{
		"restart out of range",
		`@ restart {|  policy="on_failure"|  delay="1m"|  max_delay="30s"|  factor=0.5|  jitter=1|  limit=1.5|  within="10m"| }|}|service "mcp" "b" {| command=["sh"]| restart {|  limit=-1|  factor=1/0|  jitter=-0.1| }|}`,
		[]finding{
			at("4,10-22", "policy", `Did you mean "on-failure"?`),
			at("6,13-18", "cannot be below delay, which is 1m0s"),
			at("7,10-13", "from 1 on"),
			at("8,10-11", "from 0 to below 1"),
			at("9,9-12", "a whole number from 0 on"),
			at("16,9-11", "a whole number from 0 on"),
			at("17,10-13", "from 1 on"),
			at("18,10-14", "from 0 to below 1"),
		},
	},
	{
		"blocks given twice",
		`host {|}|host {|}|@ stop {|  grace="1s"| }| stop {|  grace="1s"| }|}`,
		[]finding{at("3,1-5", "only one host block", "1,1-5"), at("10,2-6", "only one stop block", "7,2-6")},
	},
	{
		"labels missing or too many",
		`service "a" {|}|service {|}|service "mcp" "a" "b" {|}|host "x" {|}`,
		[]finding{
			at("1,13-14", "Missing name"), at("3,9-10", "Missing kind"), at("5,19-22", "Extraneous label"), at("7,6-9", "Extraneous label"),
		},
	},
	{
		"reference to a service with a label missing",
		`@ depends_on=[service.mcp.b]|}|service "b" {| command=["sh"]|}|service "agent" "c" {| command=["sh"]| tools {|  allow=["b/*"]| }|}`,
		[]finding{at("5,13-14", "Missing name")},
	},
	{
		"grant of the tools of an agent",
		`service "agent" "b" {| command=["sh"]| tools {|  allow=["c/*"]| }|}|service "agent" "c" {| command=["sh"]|}`,
		[]finding{warns("4,10-15", "There is an agent of that name")},
	},
	{
		"number or boolean in the place of a map",
		`@ env=1|}|service "mcp" "b" {| command=["sh"]| env=true| port={}|}`,
		[]finding{at("3,6-7", "a map of strings", "number"), at("7,6-10", "a map of strings", "boolean"), at("8,7-9", "from 1 to 65535", "this is a map")},
	},
	{
		"grants of an agent",
		`service "agent" "b" {| command=["sh"]| tools {|  allow=["clock","clok/*","/x","clock/","clock/[","a b/*"]|  deny=["*"]| }|}|service "mcp" "clock" {| command=["sh"]|}`,
		[]finding{
			at("4,10-17", "Not a grant", "SERVICE/TOOL"),
			warns("4,18-26", "No such service", `Did you mean "clock"?`),
			at("4,27-31", "Not a grant"),
			at("4,32-40", "Not a grant"),
			at("4,41-50", "Not a pattern"),
			warns("4,51-58", "No such service"),
			at("5,9-12", "Not a grant"),
		},
	},
	{
		"patterns of an mcp service",
		`@ tools {|  allow=["[a-", "[]", "x\\", "get_*", ""]|  deny="x"| }|}`,
		[]finding{
			at("4,10-15", "Not a pattern"), at("4,17-21", "Not a pattern"), at("4,23-28", "Not a pattern"), at("4,39-41", "empty pattern"),
			at("5,8-11", "list is wanted", `deny = ["x"]`),
		},
	},
	{
		"gateway off loopback",
		`host {| listen="0.0.0.0:7433"| log_level="warning"| shutdown {|  timeout=30| }|}`,
		[]finding{at("2,9-23", "TLS", "certificate", "plain_http"), at("2,9-23", "token", "openssl rand"), at("3,12-21", `Did you mean "warn"?`), at("5,11-13", `"30s"`)},
	},
	{
		"no service may start",
		`host {| start_limit=0|}`,
		[]finding{at("2,14-15", "1 to 10000")},
	},
	{
		"bounds of the logs",
		`host {| logs {|  max_size=10|  max_files=0| }|}|@}`,
		[]finding{at("3,12-14", "unit", `"10MiB"`), at("4,13-14", "from 1 to 100")},
	},
	{
		"logs that are too small and bounded twice",
		`host {| logs {|  max_size="1KiB"| }| logs {| }|}|@}`,
		[]finding{at("3,12-18", "at least 64KiB"), at("5,2-6", "only one logs block")},
	},
	{
		"gateway on every interface",
		`host {| listen=":7433"|}`,
		[]finding{at("2,9-16", "without an address", `"127.0.0.1:7433"`, `"[::]:7433"`)},
	},
	{
		"gateway that is half guarded",
		`host {| listen="[::]:7433"| gateway {|  token "a" {|   value="0123456789abcdef"|  }| }|}`,
		[]finding{at("2,9-20", "TLS", "certificate", "plain_http")},
	},
	{
		"tokens that are none",
		`host {| gateway {|  token "A" {|  }|  token "b" {|   value="tooshort"|  }|  token "c" {|   value="0123456789 abcdef"|  }|  token "d" {|   value=""|   file=""|  }|  token "e" {|   value=5|  }|  token "f" {|   valu="0123456789abcdef"|  }| }|}`,
		[]finding{
			at("3,3-12", "No token", "file ="), at("3,9-12", "small letter"), at("5,3-12", "too short", "openssl"), at("8,3-12", "Not a token", "openssl"),
			at("11,3-12", "No token", "empty"), at("13,9-11", "Empty path"), at("15,3-12", "too short"), at("19,4-8", "value"),
		},
	},
	{
		"token of a variable without a value",
		`variable "v" {|}|host {| gateway {|  token "a" {|   value=var.v|  }|  token "b" {|   file="${var.v}/b"|  }| }|}`,
		[]finding{at("1,10-13", "variable v is not set")},
	},
	{
		"tokens that are alike",
		`host {| gateway {|  token "a" {|   value="0123456789abcdef"|  }|  token "a" {|   value="0123456789abcde0"|  }|  token "c" {|   value="0123456789abcdef"|  }| }|}`,
		[]finding{at("6,3-12", "already declared"), at("9,3-12", "the same as token", "3,3-12")},
	},
	{
		"what is no URL of a gateway",
		`host {| gateway {|  url="agents.example.org"| }|}`,
		[]finding{at("3,7-27", "scheme and host")},
	},
	{
		"push notifications to what is no origin",
		`service "agent" "a" {| command=["sh"]| push {|  allow=["https://*", "https://*.example.org", "http://127.0.0.1:80", "example.org", "https://example.org/x", "https://a.*.org", "ftp://*", ""]| }|}|service "mcp" "m" {| command=["sh"]| push {}|}`,
		[]finding{
			at("4,71-84", "scheme and host"), at("4,86-109", "scheme and host"), at("4,111-128", "scheme and host"),
			at("4,130-139", "scheme and host"), at("4,141-143", "scheme and host"), at("9,2-6", "only agents"),
		},
	},
	{
		"tokens for what is not there",
		`host {| gateway {|  token "a" {|   value="0123456789abcdef"|   services=["clok", "*"]|   agents=["a"]|   tools {|    allow=["clok/now", "now"]|   }|  }| }|}|service "mcp" "clock" {| command=["sh"]|}`,
		[]finding{
			warns("5,14-20", "No mcp service", `"clock"`), warns("6,12-15", "No agent service"),
			warns("8,12-22", "tools of", `"clock"`), at("8,24-29", "SERVICE/TOOL"),
		},
	},
	{
		"who may call the gateway",
		`host {| gateway {|  hosts=["https://a.example", "b.example:80", "", "C.example", "::1"]|  origins=["null", "*", "https://a.example/x", "a.example", "http://b.example"]|  limits {|   body=5|   requests=0|  }| }|}`,
		[]finding{
			at("3,10-29", "without scheme and port"), at("3,31-45", "Not a host"), at("3,47-49", "Not a host"),
			at("4,12-18", "Not an origin"), at("4,20-23", "Not an origin"), at("4,25-46", "Not an origin"), at("4,48-59", "Not an origin"),
			at("6,9-10", "unit"), at("7,13-14", "from 1 on"),
		},
	},
	{
		"a certificate that is not there",
		`host {| gateway {|  tls {|   certificate="cert.pem"|   key="key.pem"|  }|  tls {|  }| }|}`,
		[]finding{at("4,16-26", "cannot be read", "cert.pem"), at("7,3-6", "only one tls block")},
	},
	{
		"half a certificate",
		`host {| gateway {|  tls {|   key="services.hcl"|  }| }|}`,
		[]finding{at("3,3-6", "certificate is required")},
	},
	{
		"what is no certificate",
		`host {| gateway {|  tls {|   certificate="services.hcl"|   key="services.hcl"|  }| }|}`,
		[]finding{at("4,16-30", "Not a certificate"), warns("5,8-22", "Others can read", "chmod 600")},
	},
	{
		"gateway by name",
		`host {| listen="example.org:7433"|}`,
		[]finding{at("2,9-27", "no IP address")},
	},
	{
		"gateway without a port",
		`host {| listen="127.0.0.1"|}`,
		[]finding{at("2,9-20", "address and a port")},
	},
	{
		"gateway with an impossible port",
		`host {| listen="127.0.0.1:99999"|}`,
		[]finding{at("2,9-26", "99999")},
	},
	{
		"function that is not there",
		`@ env={A=uper("x")}|}`,
		[]finding{at("3,9-13", "no function named", `Did you mean "upper"?`)},
	},
	{
		"escape sequences in the source",
		"@ env={A=\"\x1b[31mred\", B=[\"\u202e\"]}|}",
		[]finding{at("3,23-28", "env.B")},
	},
	{
		"fault on a very long line",
		`@ env={` + strings.Repeat(`LONG="xxxxxxxxxx",`, 1) + strings.Repeat(" ", 100) + `B=["` + strings.Repeat("y", 300) + `"],` + strings.Repeat("C", 200) + `="x"}|}`,
		[]finding{at("3,127-431", "env.B")},
	},
	{
		"checksum without algorithm",
		`@ checksum="` + strings.Repeat("0123456789abcdef", 4) + `"|}`,
		[]finding{at("3,11-77", `write "sha256:" before it`)},
	},
	{
		"checksum of another algorithm",
		`@ checksum="md5:d41d8cd98f00b204e9800998ecf8427e"|}`,
		[]finding{at("3,11-49", `not "md5"`)},
	},
	{
		"checksum cut short",
		`@ checksum="sha256:0123"|}`,
		[]finding{at("3,11-24", "64 hexadecimal digits", "There are 4 digits")},
	},
	{
		"checksum with a digit that is none",
		`@ checksum="sha256:` + strings.Repeat("g", 64) + `"|}`,
		[]finding{at("3,11-84", "64 hexadecimal digits")},
	},
	{
		"limits out of range",
		`@ limits {|  memory=512|  cpus=0|  processes=0|  open_files=3|  nice=20| }|}`,
		[]finding{
			at("4,10-13", "A unit is needed", `"512MiB"`), at("5,8-9", "0.01"), at("6,13-14", "from 1 on"),
			at("7,14-15", "from 16 on"), at("8,8-10", "from -20 to 19"),
		},
	},
	{
		"size with a unit that is none",
		`@ limits {|  memory="512M"| }|}`,
		[]finding{at("4,10-16", `"M" is no unit`, `Write "512MiB"`)},
	},
	{
		"size too small",
		`@ limits {|  memory="4kB"| }|}`,
		[]finding{at("4,10-15", "at least 1MiB")},
	},
	{
		"misspelt limit",
		`@ limits {|  cpu=1| }|}`,
		[]finding{at("4,3-6", `Did you mean "cpus"?`)},
	},
	{
		"exec beside command",
		`@ exec=["sh"]|}`,
		[]finding{at("3,2-6", "command is here already", "2,2-9")},
	},
	{
		"exec of an agent",
		`service "agent" "a" {| exec=["sh"]|}`,
		[]finding{at("2,2-6", `An agent needs "command"`)},
	},
	{
		"program of exec that is not there",
		`service "mcp" "a" {| exec=["no-such-program-7f3"]|}`,
		[]finding{at("2,8-29", "exec:", "looked for in the directories of PATH")},
	},
	{
		"sessions of a plugin",
		`@ sessions="isolated"|}`,
		[]finding{at("3,2-10", `it cannot be beside "command"`)},
	},
	{
		"no addresses of a server",
		`service "mcp" "a" {| url="example.com/mcp"|}|service "mcp" "b" {| url="ftp://example.com"|}|service "mcp" "c" {| url="https://me:secret\u0040example.com"|}|service "mcp" "d" {| url="https://example.com/#x"|}`,
		[]finding{at("2,6-23", "Not a URL", "https://example.com/mcp"), at("5,6-25", "Not a URL"), at("8,6-42", "as a header"), at("11,6-30", "#")},
	},
	{
		"headers that cannot be sent",
		`service "mcp" "a" {| url="http://example.com"| headers={|  "X Y"="1"|  host="h"|  A="1"|  a="2"|  B="x\ny"| }|}`,
		[]finding{
			warns("2,6-26", "Use https"),
			at("4,3-8", "cannot be the name"), at("5,3-7", "set by the host"),
			at("7,3-4", "the same header as A"), at("8,5-11", "headers.B", "line break"),
		},
	},
	{
		"what a remote server cannot have",
		`service "mcp" "z" {| url="https://example.com"| port=8101| sessions="isolated"|}|@ headers={A="1"}|}`,
		[]finding{at("3,2-6", "listens elsewhere"), at("4,2-10", "one of its own"), at("8,2-9", `has "url"`)},
	},
	{
		"sessions and a checksum of a server that is no plugin",
		`service "mcp" "a" {| exec=["sh"]| sessions="private"| checksum="sha256:` + strings.Repeat("0123456789abcdef", 4) + `"|}`,
		[]finding{at("3,11-20", "sessions", "isolated"), at("4,2-10", `it cannot be beside "exec"`)},
	},
}

func TestBadInputIsReportedAtTheFault(t *testing.T) {
	seen := make(map[string]bool)
	for _, tt := range badCases {
		if seen[tt.name] {
			t.Fatalf("two cases are named %q", tt.name)
		}
		seen[tt.name] = true
		t.Run(tt.name, func(t *testing.T) {
			golden := goldenName(t, tt.name)
			cfg, diags := loadText(t, "services.hcl", written(tt.text))
			wantFindings(t, diags, tt.want...)
			if (cfg == nil) != diags.HasErrors() {
				t.Errorf("configuration given: %t, errors: %t", cfg != nil, diags.HasErrors())
			}
			if runtime.GOOS != "windows" { // the system's own words differ
				wantGolden(t, golden, diags, 80)
			}
		})
	}
}

func TestEveryGoldenFileHasACase(t *testing.T) {
	files, err := filepath.Glob("testdata/diagnostics/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, tt := range badCases {
		known[filepath.Base(goldenName(t, tt.name))] = true
	}
	for _, f := range files {
		if !known[filepath.Base(f)] {
			t.Errorf("%s belongs to no case", f)
		}
	}
}

func TestDiagnosticsAreTheSameEveryTime(t *testing.T) {
	text := written(`host {| a=1| b=2| c=3|}|@ d=1| e=2| f {|}| g=1| env={X=[],Y=[],Z=[]}|}|service "mpc" "A" {| h=1| i=2|}`)
	t.Chdir(t.TempDir())
	write(t, "services.hcl", text)
	var first string
	for range 50 {
		_, diags := Load("services.hcl")
		if got := diags.Err().Error(); first == "" {
			first = got
		} else if got != first {
			t.Fatalf("once:\n%s\nthen:\n%s", first, got)
		}
	}
}
