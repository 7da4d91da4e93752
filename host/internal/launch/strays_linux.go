package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/plughost/plughost/probes"
)

// AdoptStrays makes this process the parent of those that its children leave
// behind, such as daemons that forked twice, in place of init
// (PR_SET_CHILD_SUBREAPER), and reaps them when they have ended, until ctx
// ends. Nothing else is done to them: a stop finds them by their marker.
//
// As pid 1 of a container this process is their parent anyway. Every child of
// its own must be started by the spawner: another's exit status would be taken
// for a stray's, and lost.
func (s *Spawner) AdoptStrays(ctx context.Context) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot adopt the processes that children leave behind: %w", err)
	}
	// One place is enough: a signal that is pending stands for all since.
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	s.mu.Lock()
	s.freed = func() {
		select {
		case ended <- unix.SIGCHLD:
		default:
		}
	}
	s.mu.Unlock()
	go func() {
		defer signal.Stop(ended)
		for {
			select {
			case <-ended:
				s.reapStrays()
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// reapStrays reaps what has ended of the children that are not the spawner's.
// It asks for each by its pid: to wait for any child would take the exit
// status of the others from os/exec.
func (s *Spawner) reapStrays() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range children() {
		if _, own := s.own[pid]; own {
			continue
		}
		for {
			_, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
}

// children are the pids of this process's children. The kernel lists them by
// the thread that they belong to, if it was built to (CONFIG_PROC_CHILDREN);
// else all processes are looked through.
func children() []int {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	if len(lists) == 0 {
		return childrenByParent()
	}
	var pids []int
	for _, list := range lists {
		content, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended, and its children are another's
		}
		for field := range strings.FieldsSeq(string(content)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func childrenByParent() []int {
	entries, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		process, err := probes.Open(pid)
		if err != nil {
			continue
		}
		if parent, err := process.Parent(); err == nil && parent == os.Getpid() {
			pids = append(pids, pid)
		}
		_ = process.Close()
	}
	return pids
}
