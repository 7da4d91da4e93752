//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package installation

import (
	"errors"
	"os"
)

func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func syncDir(string) error { return nil }
