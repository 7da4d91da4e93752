package launch

import (
	"fmt"
	"os/exec"
	"runtime"
	"sync"
)

// Spawner starts all children of the host from one operating system thread.
//
// On Linux a child's death signal (PR_SET_PDEATHSIG) is sent when the thread
// that forked it ends, not the process: children started from goroutines on
// ordinary threads die when the Go runtime retires such a thread. The
// spawner's goroutine locks its thread and never returns, so its thread ends
// with the process.
//
// The zero value is ready. Its thread is started by the first Start.
type Spawner struct {
	once     sync.Once
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan error
}

// Start starts cmd as its own Start would, from the spawner's thread. The
// caller waits for it and reaps it.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	s.once.Do(func() {
		s.requests = make(chan spawnRequest)
		go s.run()
	})
	request := spawnRequest{cmd: cmd, done: make(chan error, 1)}
	s.requests <- request
	return <-request.done
}

func (s *Spawner) run() {
	runtime.LockOSThread()
	for request := range s.requests {
		request.done <- start(request.cmd)
	}
}

// start keeps a panic of os/exec from taking the thread, and with it every
// child, along.
func start(cmd *exec.Cmd) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot start %s: %v", cmd.Path, r)
		}
	}()
	return cmd.Start()
}
