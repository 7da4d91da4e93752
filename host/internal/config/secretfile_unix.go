//go:build unix

package config

import "io/fs"

// othersCanRead reports whether users who are neither the owner of a file nor
// in its group can read it.
func othersCanRead(info fs.FileInfo) bool { return info.Mode().Perm()&0o004 != 0 }
