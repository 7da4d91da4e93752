package probes

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

func probeCapabilities() Capabilities {
	c := Capabilities{OS: "windows"}
	note := func(text string, err error) {
		if err != nil {
			text += " (" + err.Error() + ")"
		}
		c.Notes = append(c.Notes, text+".")
	}
	v := windows.RtlGetVersion()
	c.Release = fmt.Sprintf("%d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)

	if h, err := openHandle(os.Getpid()); err != nil {
		note("Processes can't be held, so nothing is ever signalled", err)
	} else {
		defer h.close()
		c.Hold = true
		_, err := snapshot()
		c.HeldGroup = err == nil
		if err != nil {
			note("Processes can't be listed", err)
		}
	}
	note("Birth records rest on the pid and the time of creation, in steps of 100 ns", nil)
	note("The group of a process is its descendants; those of a descendant that had ended before a stop began are known by their marker only", nil)
	note("The polite signal is a Ctrl-Break, which reaches only processes on this one's console; without it a stop does not wait before it ends a process by force", nil)
	if _, err := ownEnviron(); err != nil {
		note("Environments can't be read", err)
	} else {
		c.Environ = true
	}
	c.AllUsers = c.Environ && mayDebug()
	if c.Environ && !c.AllUsers {
		note("Without the privilege SeDebugPrivilege other users' processes are known by birth record only", nil)
	}
	if c.Environ {
		note("Processes whose pointers are of another width than this one's are known by birth record only", nil)
	}
	if _, err := readTCPTable(windows.AF_INET); err != nil {
		note("Listening sockets can't be found", err)
	} else {
		c.Sockets = true
	}
	if version := wineVersion(); version != "" {
		note("This is wine "+version+", which does not say who holds a socket", nil)
	}
	c.Supported = c.Hold && c.Environ
	return c
}
