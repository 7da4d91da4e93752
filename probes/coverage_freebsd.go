package probes

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func probeCapabilities() Capabilities {
	c := Capabilities{OS: "freebsd"}
	note := func(text string, err error) {
		if err != nil {
			text += " (" + err.Error() + ")"
		}
		c.Notes = append(c.Notes, text+".")
	}
	c.Release, _ = unix.Sysctl("kern.osrelease")
	h, err := openHandle(os.Getpid())
	watches := err == nil
	if watches {
		_ = h.close()
		note("Signals can't be bound to a process that is no child: it is looked at once more, and then signalled by its pid", nil)
	} else {
		note("Processes can't be watched, so nothing is ever signalled", err)
	}
	note("Birth records rest on the start time, in microseconds", nil)
	note("Groups can be signalled only while their leader is there", nil)
	if _, err := ownEnviron(); err != nil {
		note("Environments can't be read", err)
	} else {
		c.Environ = true
		c.AllUsers = os.Geteuid() == 0
	}
	if c.Environ && !c.AllUsers {
		note("Only root can read the environments of other users' processes", nil)
	}
	if off, err := unix.SysctlUint32("security.bsd.unprivileged_proc_debug"); err == nil && off == 0 && os.Geteuid() != 0 {
		c.Environ = false
		note("Environments are withheld, even from their owner: security.bsd.unprivileged_proc_debug is 0", nil)
	}
	if _, err := unix.SysctlRaw("kern.boot_id"); err != nil {
		note("The boot is known by its time, which moves when the clock is set", nil)
	}
	note("Listening sockets are asked from sockstat", nil)
	if _, err := os.Stat("/usr/bin/sockstat"); errors.Is(err, os.ErrNotExist) {
		note("It is not there, so the holders of ports are not known", nil)
	}
	c.Supported = watches && c.Environ
	return c
}
