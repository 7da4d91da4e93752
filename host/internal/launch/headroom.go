package launch

import (
	"fmt"
	"sync"
)

const (
	// reservedFiles are descriptors that launches leave to the rest of the host.
	// Without any it could neither answer its operator nor stop what it runs.
	reservedFiles = 32
	// filesOfLaunch is what one launch takes at the most: pipes, the lifeline, a
	// pidfd, the connection and, for a moment, the child's ends and the spawn's.
	filesOfLaunch = 16
)

// headroom keeps launches from taking the host's last descriptors.
type headroom struct {
	mu      sync.Mutex
	pending int // launches that may still take theirs
}

// FilesError says that the host has too few file descriptors for one more
// instance.
type FilesError struct{ Open, Limit int }

func (e *FilesError) Error() string {
	return fmt.Sprintf("the host may have %d files open at once, has %d open, and keeps %d for other work: raise its limit, by ulimit -n or LimitNOFILE= in its systemd unit",
		e.Limit, e.Open, reservedFiles)
}

// Room returns a *FilesError if not even one instance could be launched now.
func (l *Launcher) Room() error {
	release, err := l.headroom.claim()
	if err == nil {
		release()
	}
	return err
}

// claim sets aside what one launch takes, until release is called.
func (h *headroom) claim() (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	open, limit, known := openFiles()
	if known && open+(h.pending+1)*filesOfLaunch+reservedFiles > limit {
		return nil, &FilesError{Open: open, Limit: limit}
	}
	h.pending++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.pending--
	}, nil
}
