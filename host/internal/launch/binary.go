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
	known map[string]binary
}

// binary is a file that was read, as it was then.
type binary struct {
	info os.FileInfo
	sum  string
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
	b.mu.Lock()
	defer b.mu.Unlock()
	if known, ok := b.known[path]; ok && unchanged(known.info, info) {
		return known.sum, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("cannot read %s: %w", path, err)
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	// A file that was changed a moment ago may change again within the same
	// tick of the file system's clock, and look unchanged.
	if b.known == nil {
		b.known = make(map[string]binary)
	}
	delete(b.known, path)
	if time.Since(info.ModTime()) > clockTick {
		b.known[path] = binary{info, sum}
	}
	return sum, nil
}

// clockTick is more than the resolution of the times of any file system in
// use; FAT's is the coarsest.
const clockTick = 2 * time.Second

func unchanged(before, now os.FileInfo) bool {
	return os.SameFile(before, now) && before.Size() == now.Size() && before.ModTime().Equal(now.ModTime())
}
