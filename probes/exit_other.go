//go:build !linux

package probes

import "errors"

// exitStatus would say how a process ended.
func exitStatus(handle) (ExitStatus, error) { return ExitStatus{}, errors.ErrUnsupported }
