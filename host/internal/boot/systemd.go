package boot

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
)

//go:embed systemd.service.tmpl
var unitText string

// Systemd is the service manager of most Linux systems.
type Systemd struct{}

// stateRoot is below what systemd makes directories for a user (StateDirectory=
// of systemd.exec(5)).
const stateRoot = "/var/lib/"

// Define returns the text of the unit.
func (Systemd) Define(s Service) (string, error) {
	if strings.ContainsAny(s.Name, "/@") {
		return "", fmt.Errorf("%q cannot be the name of a unit", s.Name)
	}
	unit, err := template.New("unit").Funcs(template.FuncMap{
		"command": unitCommand,
		"quote":   unitQuote,
		"madeBy":  func() string { return madeBy },
		"seconds": func() int { return int(s.StopTimeout.Seconds()) },
		"stateDirectory": func() string {
			name, below := strings.CutPrefix(s.StateDir, stateRoot)
			if s.Account == "" || !below {
				return ""
			}
			return name
		},
	}).Parse(unitText)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	if err := unit.Execute(&text, s); err != nil {
		return "", err
	}
	return text.String(), nil
}

// unitCommand is a command line as ExecStart= takes it.
func unitCommand(executable string, args []string) string {
	words := []string{unitQuote(executable)}
	for _, arg := range args {
		// In a command line, unlike elsewhere, variables are replaced.
		words = append(words, strings.ReplaceAll(unitQuote(arg), "$", "$$"))
	}
	return strings.Join(words, " ")
}

// unitQuote quotes a word as systemd.syntax(7) says, with no specifier in it.
func unitQuote(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "%", "%%").Replace(word) + `"`
}

// path is where the unit lies.
func (Systemd) path(s Service) (string, error) {
	if !s.PerUser {
		return filepath.Join("/etc/systemd/system", s.Name+".service"), nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "systemd", "user", s.Name+".service"), nil
}

func (Systemd) call(ctx context.Context, s Service, args ...string) (string, error) {
	if s.PerUser {
		args = append([]string{"--user"}, args...)
	}
	return call(ctx, "systemctl", args...)
}

// Install writes the unit, enables it and starts it anew.
func (m Systemd) Install(ctx context.Context, s Service) error {
	path, err := m.path(s)
	if err != nil {
		return err
	}
	text, err := m.Define(s)
	if err != nil {
		return err
	}
	if err := define(path, text); err != nil {
		return err
	}
	for _, args := range [][]string{{"daemon-reload"}, {"enable", s.Name + ".service"}, {"restart", s.Name + ".service"}} {
		if _, err := m.call(ctx, s, args...); err != nil {
			return err
		}
	}
	return nil
}

// Uninstall stops the unit, disables it and removes it.
func (m Systemd) Uninstall(ctx context.Context, s Service) error {
	path, err := m.path(s)
	if err != nil {
		return err
	}
	if err := installed(path); err != nil {
		return err
	}
	if _, err := m.call(ctx, s, "disable", "--now", s.Name+".service"); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	_, err = m.call(ctx, s, "daemon-reload")
	return err
}

// Status asks systemd for the unit.
func (m Systemd) Status(ctx context.Context, s Service) (Status, error) {
	status := Status{Manager: "systemd", Name: s.Name}
	path, err := m.path(s)
	if err != nil {
		return status, err
	}
	if err := installed(path); errors.Is(err, ErrNotInstalled) {
		return status, nil
	} else if err != nil {
		return status, err
	}
	status.Definition, status.Installed = path, true
	answer, err := m.call(ctx, s, "show", "--property=ActiveState,SubState,UnitFileState,MainPID,StatusText", s.Name+".service")
	if err != nil {
		return status, err
	}
	properties := make(map[string]string)
	for line := range strings.Lines(answer) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		properties[name] = value
	}
	status.Enabled = strings.HasPrefix(properties["UnitFileState"], "enabled")
	status.Running = properties["ActiveState"] == "active" || properties["ActiveState"] == "reloading"
	status.State = properties["ActiveState"] + " (" + properties["SubState"] + ")"
	status.PID, _ = strconv.Atoi(properties["MainPID"])
	status.Text = properties["StatusText"]
	return status, nil
}
