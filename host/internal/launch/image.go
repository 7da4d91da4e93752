package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// ChecksumError says that an executable is not the one that was configured.
type ChecksumError struct {
	// Path is the executable's.
	Path string
	// Want and Got are SHA-256 digests in hexadecimal: the configured one and
	// that of the bytes that were about to be executed.
	Want, Got string
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("%s is not the executable that its checksum names, and was not started:\n"+
		"  configured  sha256:%s\n"+
		"  found       sha256:%s\n"+
		"if the new executable is what you want, write its digest into checksum; if not, put the right one back",
		e.Path, e.Want, e.Got)
}

// Permanent reports that a retry would not help.
func (e *ChecksumError) Permanent() bool { return true }

// ConfigError is a launch that fails for what it was asked to do, and fails
// again as long as that is not changed.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// Permanent reports that a retry would not help.
func (e *ConfigError) Permanent() bool { return true }

// checkSum compares the digest of all that reader has with the wanted one.
func checkSum(reader io.Reader, path, want string) error {
	hash := sha256.New()
	if _, err := io.Copy(hash, reader); err != nil {
		return fmt.Errorf("cannot verify the checksum of %s: %w", path, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		return &ChecksumError{Path: path, Want: want, Got: got}
	}
	return nil
}
