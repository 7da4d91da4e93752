package probes

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// readProcess asks the kernel about a process, a zombie too. The error is
// ErrGone if there is none, or if the system hides it from the caller
// (security.bsd.see_other_uids).
func readProcess(pid int) (process, error) {
	if err := kinfoTrusted(); err != nil {
		return process{}, err
	}
	list, err := readKinfo("kern.proc.pid", pid)
	if err != nil {
		return process{}, err
	}
	for _, p := range list {
		if p.pid == pid {
			return p, nil
		}
	}
	return process{}, ErrGone
}

func readAll() ([]process, error)           { return readTrusted("kern.proc.proc") }
func readUser(uid int) ([]process, error)   { return readTrusted("kern.proc.uid", uid) }
func readGroup(pgid int) ([]process, error) { return readTrusted("kern.proc.pgrp", pgid) }

func readTrusted(name string, args ...int) ([]process, error) {
	if err := kinfoTrusted(); err != nil {
		return nil, err
	}
	list, err := readKinfo(name, args...)
	if errors.Is(err, ErrGone) {
		return nil, nil
	}
	return list, err
}

// readings is how often an answer is asked for that changes meanwhile.
const readings = 10

// readKinfo lists processes, zombies too.
//
// The kernel remembers when a process started, in microseconds since the boot,
// and adds the time of the boot, which moves when the clock is set. It is taken
// off again, so that the same process always has the same start.
func readKinfo(name string, args ...int) ([]process, error) {
	for range readings {
		boot, err := bootTime()
		if err != nil {
			return nil, err
		}
		raw, err := unix.SysctlRaw(name, args...)
		if errors.Is(err, unix.ENOMEM) {
			continue // it grew between the question for its size and the answer
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, typed(err))
		}
		all, err := parseKinfo(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", name, errors.ErrUnsupported, err)
		}
		if again, err := bootTime(); err != nil || again != boot {
			continue
		}
		list := make([]process, 0, len(all))
		for _, k := range all {
			list = append(list, processOf(k, boot))
		}
		return list, nil
	}
	return nil, fmt.Errorf("%s: it changes all the time", name)
}

func processOf(k kinfo, boot uint64) process {
	return process{
		birth:   birth{start: k.start - boot},
		pid:     k.pid,
		ppid:    k.ppid,
		pgid:    k.pgid,
		uid:     k.uid,
		command: k.command,
		zombie:  k.state == kinfoZombie,
		forked:  k.flags&kinfoExeced == 0,
		kernel:  k.flags&kinfoKernel != 0 || k.flags&kinfoSystem != 0 && k.pid != 1,
	}
}

// bootTime returns the time of the boot in microseconds since 1970, by the
// clock of now.
func bootTime() (uint64, error) {
	tv, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return 0, fmt.Errorf("kern.boottime: %w", err)
	}
	return uint64(tv.Sec)*1e6 + uint64(tv.Usec), nil
}

// kinfoTrusted makes sure, at the first use, that the structures of the kernel
// are what is read here: that of this very process has to say of it what
// system calls say.
var kinfoTrusted = sync.OnceValue(func() error {
	self := os.Getpid()
	list, err := readKinfo("kern.proc.pid", self)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("%w: kern.proc.pid does not show this process", errors.ErrUnsupported)
	}
	p := list[0]
	if p.pid != self || p.ppid != os.Getppid() || p.pgid != unix.Getpgrp() || p.uid != os.Geteuid() || p.zombie || p.start == 0 {
		return fmt.Errorf("%w: kern.proc.pid shows this process as %+v", errors.ErrUnsupported, p)
	}
	return nil
})

// readEnviron reads an environment block, as it lies in the process's memory.
// A process of the kernel has none.
func readEnviron(pid int) ([]byte, error) {
	block, err := unix.SysctlRaw("kern.proc.env", pid)
	switch {
	case err != nil:
		return nil, fmt.Errorf("kern.proc.env: %w", err)
	case len(block) > maxEnviron:
		return nil, fmt.Errorf("environment of more than %d bytes: %w", maxEnviron, unix.E2BIG)
	case len(block) > 0 && block[len(block)-1] != 0:
		return nil, errAgain{errors.New("it was overwritten")}
	}
	return block, nil
}

func readArgs(pid int) ([]string, error) {
	line, err := unix.SysctlRaw("kern.proc.args", pid)
	text := strings.TrimRight(string(line), "\x00")
	if err != nil || text == "" {
		return nil, err
	}
	return strings.Split(text, "\x00"), nil
}

// deliver sends a signal to the process, which has not exited a moment ago.
func (h *watched) deliver(sig syscall.Signal) error { return h.checkAndKill(sig) }

// BootID returns the random id that FreeBSD 13 and later make at boot. Before,
// it is the time of the boot, which moves when the clock is set: then nothing
// is known by its birth record any more.
func BootID() (string, error) {
	const uuidSize = 16
	id, err := unix.SysctlRaw("kern.boot_id")
	if err == nil && len(id) == uuidSize && strings.Trim(string(id), "\x00") != "" {
		text := hex.EncodeToString(id)
		return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-"), nil
	}
	boot, err := bootTime()
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return fmt.Sprintf("boottime-%d", boot), nil
}
