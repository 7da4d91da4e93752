package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"howett.net/plist"
)

// Launchd is the service manager of macOS.
type Launchd struct{}

// job is what launchd.plist(5) describes.
type job struct {
	Comment              string
	Label                string
	ProgramArguments     []string
	EnvironmentVariables map[string]string `plist:",omitempty"`
	UserName             string            `plist:",omitempty"`
	RunAtLoad            bool
	// KeepAlive has the job started again if it did not exit with status 0,
	// also if it crashed. The key Crashed would be another reason to start it,
	// and none not to.
	KeepAlive struct{ SuccessfulExit bool }
	// ExitTimeOut is how many seconds there are between SIGTERM and SIGKILL.
	ExitTimeOut int
	// AbandonProcessGroup leaves it to the host what ends with it.
	AbandonProcessGroup bool
	// SoftResourceLimits raises the 256 files that a job may have open.
	SoftResourceLimits struct{ NumberOfFiles int }
	StandardErrorPath  string
	StandardOutPath    string
}

const openFiles = 8192

func label(s Service) string { return "com.github.plughost." + s.Name }

// Define returns the job's property list.
func (m Launchd) Define(s Service) (string, error) {
	logs, err := m.directory(s, "Logs")
	if err != nil {
		return "", err
	}
	log := filepath.Join(logs, s.Name+".log")
	definition := job{
		Comment:             madeBy + ", which replaces it.",
		Label:               label(s),
		ProgramArguments:    append([]string{s.Executable}, s.Args...),
		UserName:            s.Account,
		RunAtLoad:           true,
		ExitTimeOut:         int(s.StopTimeout.Seconds()),
		AbandonProcessGroup: true,
		StandardErrorPath:   log,
		StandardOutPath:     log,
	}
	definition.SoftResourceLimits.NumberOfFiles = openFiles
	for _, entry := range s.Env {
		name, value, _ := strings.Cut(entry, "=")
		if definition.EnvironmentVariables == nil {
			definition.EnvironmentVariables = make(map[string]string)
		}
		definition.EnvironmentVariables[name] = value
	}
	text, err := plist.MarshalIndent(definition, plist.XMLFormat, "\t")
	return string(text) + "\n", err
}

// directory is one of the user's library, or of the machine's.
func (Launchd) directory(s Service, name string) (string, error) {
	if !s.PerUser {
		return filepath.Join("/Library", name), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, "Library", name), err
}

func (m Launchd) path(s Service) (string, error) {
	kind := "LaunchDaemons"
	if s.PerUser {
		kind = "LaunchAgents"
	}
	dir, err := m.directory(s, kind)
	return filepath.Join(dir, label(s)+".plist"), err
}

// domain is where launchctl(1) finds the job.
func (Launchd) domain(s Service) string {
	if s.PerUser {
		return fmt.Sprintf("gui/%d", os.Getuid())
	}
	return "system"
}

func (m Launchd) target(s Service) string { return m.domain(s) + "/" + label(s) }

// Install writes the property list and has launchd read it anew.
func (m Launchd) Install(ctx context.Context, s Service) error {
	path, err := m.path(s)
	if err != nil {
		return err
	}
	text, err := m.Define(s)
	if err != nil {
		return err
	}
	known := installed(path) == nil
	if err := define(path, text); err != nil {
		return err
	}
	if known {
		// It may have been taken out of launchd by hand.
		_, _ = call(ctx, "launchctl", "bootout", m.target(s))
	}
	if _, err := call(ctx, "launchctl", "enable", m.target(s)); err != nil {
		return err
	}
	_, err = call(ctx, "launchctl", "bootstrap", m.domain(s), path)
	return err
}

// Uninstall takes the job out of launchd and removes its property list.
func (m Launchd) Uninstall(ctx context.Context, s Service) error {
	path, err := m.path(s)
	if err != nil {
		return err
	}
	if err := installed(path); err != nil {
		return err
	}
	if status, err := m.Status(ctx, s); err == nil && status.State != "" {
		if _, err := call(ctx, "launchctl", "bootout", m.target(s)); err != nil {
			return err
		}
	}
	return os.Remove(path)
}

// Status asks launchd for the job. One that launchd does not know has no state.
func (m Launchd) Status(ctx context.Context, s Service) (Status, error) {
	status := Status{Manager: "launchd", Name: label(s)}
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
	if answer, err := call(ctx, "launchctl", "print", m.target(s)); err == nil {
		status.Enabled = true
		status.State, status.PID = parsePrint(answer)
		status.Running = status.PID != 0
	}
	return status, nil
}

// parsePrint reads what launchctl print says of a job, whose own lines are
// indented once.
func parsePrint(answer string) (state string, pid int) {
	for line := range strings.Lines(answer) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case !strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "\t\t"):
		case name == "state":
			state = value
		case name == "pid":
			pid, _ = strconv.Atoi(value)
		}
	}
	return state, pid
}
