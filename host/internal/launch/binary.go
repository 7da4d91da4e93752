package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Binaries knows executables by the SHA-256 of their bytes. A file is read
// again only if it is another one, or was changed. The zero value is ready to
// use, and its methods may be called concurrently.
type Binaries struct {
	mu    sync.Mutex
	known map[string]*binary
}

// binary is a file that was read, as it was then. One is read at a time by one
// caller, whom others wait for, and others beside it.
type binary struct {
	mu   sync.Mutex
	info os.FileInfo // nil if it is to be read again in any case
	sum  string
}

// at returns what is known of the file at path.
func (b *Binaries) at(path string) *binary {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = make(map[string]*binary)
	}
	known := b.known[path]
	if known == nil {
		known = new(binary)
		b.known[path] = known
	}
	return known
}

// SHA256 returns the digest of the file at path, in lower-case hexadecimal.
func (b *Binaries) SHA256(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	known := b.at(path)
	known.mu.Lock()
	defer known.mu.Unlock()
	if known.info != nil && unchanged(known.info, info) {
		return known.sum, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("cannot read %s: %w", path, err)
	}
	known.info, known.sum = nil, hex.EncodeToString(hash.Sum(nil))
	// A file that was changed a moment ago may change again within the same
	// tick of the file system's clock, and look unchanged.
	if time.Since(info.ModTime()) > clockTick {
		known.info = info
	}
	return known.sum, nil
}

// clockTick is more than the resolution of the times of any file system in
// use; FAT's is the coarsest.
const clockTick = 2 * time.Second

func unchanged(before, now os.FileInfo) bool {
	return os.SameFile(before, now) && before.Size() == now.Size() && before.ModTime().Equal(now.ModTime())
}
