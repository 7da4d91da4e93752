//go:build !unix

package installation

import "io/fs"

// ownedByUs is always true where a user's temporary directory is private.
func ownedByUs(fs.FileInfo) bool { return true }
