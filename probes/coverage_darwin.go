package probes

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func probeCapabilities() Capabilities {
	c := Capabilities{OS: "darwin"}
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
		defer h.close()
		err := refusesOtherVersions()
		c.Hold = err == nil && h.born.unique != 0
		if !c.Hold {
			note("Signals can't be bound to a process before macOS 14.2: it is looked at once more, and then signalled by its pid", err)
		}
	} else {
		note("Processes can't be watched by kqueue, so nothing is ever signalled", err)
	}
	note("Birth records rest on the start time, in microseconds", nil)
	note("Groups can be signalled only while their leader is there", nil)
	if _, err := ownEnviron(); err != nil {
		note("Environments can't be read", err)
	} else {
		c.Environ = true
		c.AllUsers = os.Geteuid() == 0
		note("The environments of the system's own programs are withheld: these are known by birth record only", nil)
	}
	if c.Environ && !c.AllUsers {
		note("Only root can read the environments of other users' processes", nil)
	}
	if _, err := BootID(); err != nil {
		note("Birth records can't be had", err)
	}
	if err := socketsTrusted(); err != nil {
		note("Listening sockets are asked from lsof", err)
	} else {
		c.Sockets = true
	}
	if os.Geteuid() != 0 {
		note("The holders of other users' sockets are not to be seen", nil)
	}
	c.Supported = watches && c.Environ
	return c
}

// refusesOtherVersions returns nil if the kernel refuses to signal a process
// whose pid has another version than the one that is named. The process is the
// calling one, and the signal, were it to arrive, one that does nothing there.
func refusesOtherVersions() error {
	self := os.Getpid()
	uniq, ok := readUniq(self)
	if !ok {
		return errors.New("the version of a pid is not told")
	}
	err := signalVersion(newAuditToken(self, uniq.version+1), syscall.SIGURG)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case err == nil:
		return errors.New("the version of a pid is not compared")
	}
	return err
}
