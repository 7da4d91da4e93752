//go:build !linux

package launch

import (
	"fmt"
	"os"
)

// image is an executable whose bytes were verified. These systems can execute
// a file only by its path, so it is verified right before the spawn and again
// right after it. Who can replace the file twice in between is not caught: keep
// it where only its owner can write.
type image struct{ path, want string }

// openImage verifies the executable at path against a SHA-256 digest in
// hexadecimal.
func openImage(path, want string) (*image, error) {
	i := &image{path, want}
	return i, i.recheck()
}

// recheck verifies the executable again.
func (i *image) recheck() error {
	if i == nil {
		return nil
	}
	file, err := os.Open(i.path)
	if err != nil {
		return fmt.Errorf("cannot verify the checksum: %w", err)
	}
	defer file.Close()
	return checkSum(file, i.path, i.want)
}

// Close may be called on nil.
func (*image) Close() error { return nil }
