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
	// restricted is the thread of those who may gain no privileges.
	restricted restrictedThread
	// switching is held while a child becomes another user.
	switching sync.Mutex

	// mu is held from before a child is there until it is known to be the
	// spawner's own, so that it is never taken for a stray.
	mu    sync.Mutex
	own   map[int]struct{} // children that were not reaped yet
	freed func()           // called when there is one less; nil for nobody
}

type spawnRequest struct {
	cmd *exec.Cmd
	// adjust is called, if it is not nil, when the child has its new image and
	// did not yet execute an instruction of it. It needs cmd to be traced.
	adjust func(pid int) error
	done   chan error
}

// Start starts cmd as its own Start would, from the spawner's thread. The
// caller reaps it by Wait.
func (s *Spawner) Start(cmd *exec.Cmd) error {
	return ask(s.thread(), cmd, nil)
}

func (s *Spawner) thread() chan<- spawnRequest {
	s.once.Do(func() {
		s.requests = make(chan spawnRequest)
		go s.run(s.requests)
	})
	return s.requests
}

func ask(thread chan<- spawnRequest, cmd *exec.Cmd, adjust func(pid int) error) error {
	request := spawnRequest{cmd, adjust, make(chan error, 1)}
	thread <- request
	return <-request.done
}

// Wait waits for the end of a command that Start started, and reaps it.
func (s *Spawner) Wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	s.mu.Lock()
	delete(s.own, cmd.Process.Pid)
	freed := s.freed
	s.mu.Unlock()
	if freed != nil {
		freed() // a stray that got the same pid meanwhile was passed over
	}
	return err
}

func (s *Spawner) run(requests <-chan spawnRequest) {
	runtime.LockOSThread()
	for request := range requests {
		request.done <- s.start(request.cmd, request.adjust)
	}
}

// start keeps a panic of os/exec from taking the thread, and with it every
// child, along.
func (s *Spawner) start(cmd *exec.Cmd, adjust func(pid int) error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot start %s: %v", cmd.Path, r)
		}
	}()
	if err := cmd.Start(); err != nil {
		return err
	}
	if adjust != nil {
		if err := atExec(cmd.Process.Pid, adjust); err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return err
		}
	}
	if s.own == nil {
		s.own = make(map[int]struct{})
	}
	s.own[cmd.Process.Pid] = struct{}{}
	return nil
}
