package probes

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func probeCapabilities() Capabilities {
	c := Capabilities{OS: "linux"}
	note := func(text string, err error) {
		if err != nil {
			text += " (" + err.Error() + ")"
		}
		c.Notes = append(c.Notes, text+".")
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		c.Release = unix.ByteSliceToString(name.Release[:])
	}
	if h, err := openHandle(os.Getpid()); err != nil {
		note("Processes can't be held by a pidfd, so nothing is ever signalled", err)
	} else {
		defer h.close()
		err := h.send(0, 0)
		c.Hold = err == nil
		if !c.Hold {
			note("Signals can't be sent by pidfd, so nothing is ever signalled", err)
		}
		c.UniqueBirth = h.inode() != 0
		if !c.UniqueBirth {
			note("Pidfds have no inode of their own before Linux 6.9: birth records rest on the start time, in steps of 10 ms", nil)
		}
		// Signal 0 only asks. If the caller leads no group there is none to be
		// found; a kernel that does not know the flag says something else.
		err = h.send(0, unix.PIDFD_SIGNAL_PROCESS_GROUP)
		c.HeldGroup = err == nil || errors.Is(err, unix.ESRCH)
		if !c.HeldGroup {
			note("Groups can't be signalled by pidfd before Linux 6.9, only while their leader is there", err)
		}
	}
	if _, err := procDir(); err != nil {
		note("Processes can't be identified", err)
	} else if _, err := ownEnviron(); err != nil {
		note("Environments can't be read", err)
	} else {
		c.Environ = true
	}
	c.AllUsers = c.Environ && canTrace()
	if c.Environ && !c.AllUsers {
		note("Without CAP_SYS_PTRACE other users' processes, and those that are not dumpable, are known by birth record only", nil)
	}
	if _, err := BootID(); err != nil {
		note("Birth records can't be had", err)
	}
	if _, err := diagListeners(1); err != nil {
		note("Listening sockets are read from /proc/net", err)
	} else {
		c.Sockets = true
	}
	c.Supported = c.Hold && c.Environ
	return c
}
