//go:build !unix

package config

import "io/fs"

// othersCanRead reports whether others than its owner can read a file, which
// its mode does not say here.
func othersCanRead(fs.FileInfo) bool { return false }
