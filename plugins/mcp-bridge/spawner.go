package main

import (
	"os/exec"
	"runtime"
)

// spawner starts processes from one thread that lives as long as the plugin. On
// Linux the signal that they get when their parent dies follows the thread that
// started them, and not the process.
type spawner struct{ jobs chan func() }

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	s.jobs <- func() { done <- cmd.Start() }
	return <-done
}
