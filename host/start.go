package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/installation"
)

const (
	// hostLog is, in the state directory, what a host in the background writes.
	hostLog = "host.log"
	// maxHostLog is how many bytes it may have when a host begins to write to it;
	// else it becomes the old one.
	maxHostLog = 10 << 20
	// lastLook is for another host than that which was started in vain.
	lastLook = 2 * time.Second
	// shownOfLog is how much of it is shown of a host that did not start.
	shownOfLog = 4 << 10
)

// starter starts hosts in the background.
type starter struct {
	dir string       // the state directory
	in  config.Input // with absolute paths
}

// newStarter makes one that starts a host of a configuration. The installation
// that the command is about is that host's from then on.
func newStarter(at *location, in config.Input) (*starter, error) {
	configured := ""
	if at.stateDir == "" {
		conf, _, err := loadConfig(in)
		if err != nil {
			return nil, err
		}
		configured = conf.Host.StateDir
	}
	dir, err := filepath.Abs(at.dir(configured))
	if err != nil {
		return nil, err
	}
	at.stateDir = dir
	in, err = absolute(in)
	return &starter{dir: dir, in: in}, err
}

// start starts a host, unless there is one, and returns when it answers.
func (s *starter) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hostPatience)
	defer cancel()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("cannot start a host: %w", err)
	}
	for {
		turn, ok, err := installation.TurnToStart(s.dir)
		switch {
		case err != nil:
			return err
		case ok:
			defer turn.Close()
			return s.startInTurn(ctx)
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("another is starting a host, and takes too long: see %s", filepath.Join(s.dir, hostLog))
		}
	}
}

func (s *starter) startInTurn(ctx context.Context) error {
	if s.answers(ctx) {
		return nil
	}
	log, from, err := s.openLog()
	if err != nil {
		return fmt.Errorf("cannot start a host: %w", err)
	}
	defer log.Close()
	exited, err := s.spawn(log)
	if err != nil {
		return fmt.Errorf("cannot start a host: %w", err)
	}
	for !s.answers(ctx) {
		select {
		case <-exited:
			// One that was started in another way may be about to answer.
			last, cancel := context.WithTimeout(ctx, lastLook)
			defer cancel()
			ctx, exited = last, nil
		default:
		}
		if pause(ctx) == nil {
			continue
		}
		if exited == nil {
			return fmt.Errorf("the host did not start; %s says:\n%s", log.Name(), s.written(log, from))
		}
		return fmt.Errorf("the host does not answer: see %s", log.Name())
	}
	return nil
}

// pause waits a moment, or for the end of ctx, which is an error.
func pause(ctx context.Context) error {
	select {
	case <-time.After(lookAgain):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// spawn starts a host that goes on when this process has ended. exited is closed
// when it has ended before.
func (s *starter) spawn(log *os.File) (exited <-chan struct{}, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"run", "--state-dir", s.dir}, inputFlags(s.in)...)
	// It is no child of an installation, but the one that has them.
	cmd := exec.Command(self, args...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	return ended, nil
}

// openLog opens the log of hosts in the background, and returns where what is
// written from now on begins.
func (s *starter) openLog() (log *os.File, from int64, err error) {
	path := filepath.Join(s.dir, hostLog)
	if info, err := os.Stat(path); err == nil && info.Size() > maxHostLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, 0, err
		}
	}
	log, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, 0, err
	}
	info, err := log.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, log.Close())
	}
	return log, info.Size(), nil
}

// written is what a host wrote that did not start, or the end of it.
func (*starter) written(log *os.File, from int64) string {
	if info, err := log.Stat(); err == nil {
		from = max(from, info.Size()-shownOfLog)
	}
	text, err := io.ReadAll(io.NewSectionReader(log, from, shownOfLog))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

func (s *starter) answers(ctx context.Context) bool {
	paths, err := installation.Find(s.dir)
	if err != nil {
		return false
	}
	_, err = control.NewClient(paths.ControlSocket()).Status(ctx)
	return err == nil
}
