package installation

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const startFile = "start.lock"

// TurnToStart takes the turn of whoever is about to start a host of the
// installation in dir in the background, so that several who want one start one.
// ok is false as long as another has it. It is given back by Close, and with the
// process.
func TurnToStart(dir string) (turn io.Closer, ok bool, err error) {
	f, err := os.OpenFile(filepath.Join(dir, startFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("cannot start a host: %w", err)
	}
	locked, err := tryLock(f)
	if err != nil {
		return nil, false, errors.Join(fmt.Errorf("cannot start a host: %w", err), f.Close())
	}
	if !locked {
		return nil, false, f.Close()
	}
	return f, true, nil
}
