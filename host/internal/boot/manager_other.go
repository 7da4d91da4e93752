//go:build !linux && !darwin && !windows

package boot

import (
	"errors"
	"fmt"
)

// Current is the service manager of this system.
func Current() (Manager, error) {
	return nil, fmt.Errorf("there is no service manager here that plughost knows: %w", errors.ErrUnsupported)
}
