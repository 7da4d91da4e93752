package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/installation"
	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
)

// envStateDir names the state directory for those who do not give the flag.
const envStateDir = "PLUGHOST_STATE_DIR"

// location says which installation a command is about.
type location struct {
	stateDir string // as given by the flag
}

// dir is the state directory: the flag's, the configuration's (for commands
// that read one), the environment's, or the default.
func (l *location) dir(configured string) string {
	for _, dir := range []string{l.stateDir, configured, os.Getenv(envStateDir)} {
		if dir != "" {
			return dir
		}
	}
	return defaultStateDir()
}

// defaultStateDir is where the operating system keeps the state of services
// for root, and of programs for everybody else.
func defaultStateDir() string {
	if runtime.GOOS != "windows" && os.Geteuid() == 0 {
		return "/var/lib/plughost"
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "plughost")
	}
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		if dir, err := os.UserConfigDir(); err == nil {
			return filepath.Join(dir, "plughost")
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), "plughost-state")
	}
	return filepath.Join(home, ".local", "state", "plughost")
}

// installation finds the installation of a command that is not the host.
func (l *location) installation() (installation.Paths, error) {
	paths, err := installation.Find(l.dir(""))
	var missing *installation.NotFoundError
	if errors.As(err, &missing) {
		return paths, fmt.Errorf("%w: start one with 'plughost run --config FILE', or name another directory with --state-dir", err)
	}
	if errors.Is(err, fs.ErrPermission) {
		return paths, fmt.Errorf("%w: it is another user's, who can let others in by host { control { group } } of the configuration", err)
	}
	return paths, err
}

// client connects to the running host.
func (l *location) client() (*control.Client, error) {
	paths, err := l.installation()
	if err != nil {
		return nil, err
	}
	return newClient(paths), nil
}

// newClient makes a client of an installation's host, which says on standard
// error if that is of another version.
func newClient(paths installation.Paths) *control.Client {
	client := control.NewClient(paths.ControlSocket())
	client.Version = version()
	client.OtherVersion = func(host string) {
		fmt.Fprintf(os.Stderr, "plughost: the host is version %s, and this command is version %s: what is new in one of them the other does not know\n", host, version())
	}
	return client
}

// explain says what to do about an error of the client.
func (l *location) explain(err error) error {
	if errors.Is(err, control.ErrNoHost) {
		if pid := l.silentHost(); pid != 0 {
			return fmt.Errorf("the host on %s, pid %d, takes no requests: it is starting, or about to end; try again", l.dir(""), pid)
		}
		return fmt.Errorf("no host is running on %s: start one with 'plughost run --config FILE', or name another directory with --state-dir", l.dir(""))
	}
	return err
}

// silentHost is the pid of a host that runs all the same, or 0.
func (l *location) silentHost() int {
	paths, err := installation.Find(l.dir(""))
	if err != nil {
		return 0
	}
	process, err := probes.Open(paths.LastHost())
	if err != nil {
		return 0
	}
	defer process.Close()
	id, err := process.Marker()
	if err != nil || process.Exited() || id.Kind != marker.KindHost || id.Installation != paths.ID {
		return 0
	}
	return process.PID()
}
