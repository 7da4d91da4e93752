//go:build !linux

package launch_test

// systemProcesses are what the test binary can be instead on this system.
var systemProcesses map[string]func()
