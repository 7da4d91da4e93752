// Package boot has a machine start a host by itself: as a unit of systemd, a
// job of launchd, or a service of Windows.
package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Service is a host that a machine is to start.
type Service struct {
	// Name is the unit's, the job's or the service's, such as plughost.
	Name string
	// Executable is the plughost command, and Args what it is called with.
	Executable string
	Args       []string
	// Reload is what has the running host read its configuration again: the
	// arguments of a second call of Executable.
	Reload []string
	// StateDir is the host's state directory.
	StateDir string
	// PerUser is for a host of the user who installs it; else it is the
	// machine's, and Account is whom it runs as, unless it is empty.
	PerUser bool
	Account string
	// Env are variables of the host, as in NAME=VALUE.
	Env []string
	// StopTimeout is how long a stop may take.
	StopTimeout time.Duration
	// Keeps says that some of its services outlive the host, so that nothing
	// but the host itself may be ended with it.
	Keeps bool
}

// Status is how a service is.
type Status struct {
	// Manager is systemd, launchd or windows.
	Manager string `json:"manager"`
	Name    string `json:"name"`
	// Definition is the path of the file that defines it, if one does.
	Definition string `json:"definition,omitempty"`
	Installed  bool   `json:"installed"`
	// Enabled says whether it is started with the machine, or when its user logs
	// in.
	Enabled bool `json:"enabled"`
	Running bool `json:"running"`
	PID     int  `json:"pid,omitempty"`
	// State is how its manager calls its state, and Text what the host says of
	// itself.
	State string `json:"state,omitempty"`
	Text  string `json:"text,omitempty"`
}

// Manager is what starts services on a machine.
type Manager interface {
	// Define returns the service's definition as text for people, and for the
	// manager if that reads files.
	Define(Service) (string, error)
	// Install defines the service, and has it started now and at each boot. It
	// replaces an older definition of its own kind; the error is a
	// *ForeignError if there is another's.
	Install(context.Context, Service) error
	// Uninstall stops the service and forgets it. Of the service only the name
	// and PerUser count. That there is none is ErrNotInstalled.
	Uninstall(context.Context, Service) error
	// Status says how the service is. Of it only the name and PerUser count.
	Status(context.Context, Service) (Status, error)
}

// ErrNotInstalled says that there is no such service.
var ErrNotInstalled = errors.New("it is not installed")

// ForeignError says that a definition was not made by this package.
type ForeignError struct{ Path string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s was not made by 'plughost boot install': move it away, or choose another --name", e.Path)
}

// madeBy is in each definition that this package makes.
const madeBy = "Made by plughost boot install"

// define writes a definition into its place, whole or not at all.
func define(path, definition string) error {
	if err := ours(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, ".plughost-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.WriteString(definition)
	if err := errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

// ours returns nil if a definition is there that this package made.
func ours(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(content), madeBy) {
		return &ForeignError{path}
	}
	return nil
}

// installed is ours, with ErrNotInstalled where nothing is.
func installed(path string) error {
	err := ours(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNotInstalled
	}
	return err
}

// call runs a tool of the manager, and returns what it writes.
func call(ctx context.Context, tool string, args ...string) (string, error) {
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(ctx, tool, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", tool, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
