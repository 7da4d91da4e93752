package boot

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"howett.net/plist"
)

var update = flag.Bool("update", false, "write the golden files anew")

// awkward has what has a meaning in the definitions.
func awkward() Service {
	return Service{
		Name:        "plughost",
		Executable:  `/opt/my tools/plughost`,
		Args:        []string{"run", "--config", `/etc/100% "mine" $HOME & <co>/services.hcl`, "--state-dir", "/var/lib/plughost"},
		Reload:      []string{"reload", "--state-dir", "/var/lib/plughost"},
		StateDir:    "/var/lib/plughost",
		Env:         []string{"PATH=/usr/local/bin:/usr/bin", `MOTTO=50% of "$a" & <b>`},
		StopTimeout: 45 * time.Second,
	}
}

func services() map[string]Service {
	machine, user, account := awkward(), awkward(), awkward()
	user.PerUser, user.Keeps = true, true
	account.Account = "plughost"
	return map[string]Service{"machine": machine, "user": user, "account": account}
}

// golden compares a text with the file of that name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("it is not what %s holds (%v); -update writes it:\n%s", path, err, got)
	}
}

func TestUnits(t *testing.T) {
	for name, service := range services() {
		t.Run(name, func(t *testing.T) {
			text, err := Systemd{}.Define(service)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".service", text)
		})
	}
}

func TestUnitsAreFreeOfFaults(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, service := range services() {
		t.Run(name, func(t *testing.T) {
			service.Executable = executable // it is looked for
			if service.Account != "" {
				service.Account = "daemon" // and so is the user
			}
			text, err := Systemd{}.Define(service)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "plughost.service")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			output, err := exec.Command(analyze, "verify", "--man=no", path).CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, output)
			}
			for line := range strings.Lines(string(output)) {
				// What an older systemd does not know it ignores.
				if strings.Contains(line, path) && !strings.Contains(line, "'DelegateSubgroup'") {
					t.Error(line)
				}
			}
		})
	}
}

func TestPropertyLists(t *testing.T) {
	t.Setenv("HOME", "/Users/somebody")
	for name, service := range services() {
		t.Run(name, func(t *testing.T) {
			text, err := Launchd{}.Define(service)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".plist", text)
			var got map[string]any
			if _, err := plist.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			keepAlive := map[string]any{"SuccessfulExit": false}
			if !reflect.DeepEqual(got["KeepAlive"], keepAlive) {
				t.Errorf("KeepAlive is %v, want %v", got["KeepAlive"], keepAlive)
			}
			var arguments []string
			for _, argument := range got["ProgramArguments"].([]any) {
				arguments = append(arguments, argument.(string))
			}
			if want := append([]string{service.Executable}, service.Args...); !reflect.DeepEqual(arguments, want) {
				t.Errorf("the command line is %q, want %q", arguments, want)
			}
		})
	}
}

func TestStateOfAJob(t *testing.T) {
	const answer = "system/com.github.plughost.plughost = {\n\tactive count = 1\n\tstate = running\n\tpid = 4711\n\tendpoints = {\n\t\tstate = other\n\t\tpid = 1\n\t}\n}\n"
	if state, pid := parsePrint(answer); state != "running" || pid != 4711 {
		t.Errorf("got %q and %d", state, pid)
	}
}

func TestOnlyOwnDefinitionsAreReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "below", "x.service")
	if err := define(path, "# "+madeBy+"\n1"); err != nil {
		t.Fatal(err)
	}
	if err := define(path, "# "+madeBy+"\n2"); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("[Service]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := define(path, "# "+madeBy); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("of another's file it says %v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "[Service]\n" {
		t.Errorf("it holds %q (%v) afterwards", content, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("beside it there are %v (%v)", entries, err)
	}
}
