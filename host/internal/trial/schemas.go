package trial

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/plughost/plughost/host/internal/launch"
)

// Schemas remembers what plugins declare for their configuration, so that these
// need not be launched to be asked. A plugin is known by the SHA-256 of its
// executable and by its arguments, with the content of those that name files:
// the executable may be an interpreter. What such a file loads is not looked at.
type Schemas struct {
	// Dir is where they are kept. It is made when it is needed, in a directory
	// that exists; where there is none, nothing is remembered.
	Dir string
	// Binaries knows the digests of files.
	Binaries *launch.Binaries
}

// maxRemembered bounds the files. The oldest go first.
const maxRemembered = 200

// Get returns the schema of what spec launches, if it is remembered. An empty
// one says that the plugin takes no configuration.
func (s Schemas) Get(spec launch.Spec) (schema []byte, known bool) {
	name, err := s.file(spec)
	if err != nil {
		return nil, false
	}
	schema, err = os.ReadFile(name)
	return schema, err == nil
}

// Put remembers a schema.
func (s Schemas) Put(spec launch.Spec, schema []byte) error {
	name, err := s.file(spec)
	if err != nil {
		return err
	}
	if before, err := os.ReadFile(name); err == nil && bytes.Equal(before, schema) {
		return nil
	}
	if err := os.Mkdir(s.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("cannot remember a plugin's schema: %w", err)
	}
	// Whole or not at all: others may read it now.
	part := name + ".part"
	if err := os.WriteFile(part, schema, 0o600); err != nil {
		return fmt.Errorf("cannot remember a plugin's schema: %w", err)
	}
	if err := os.Rename(part, name); err != nil {
		return fmt.Errorf("cannot remember a plugin's schema: %w", err)
	}
	return s.prune()
}

// file is where the schema of what spec launches is kept.
func (s Schemas) file(spec launch.Spec) (string, error) {
	sum, err := s.Binaries.SHA256(spec.Path)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", sum)
	for _, arg := range spec.Args[min(1, len(spec.Args)):] {
		fmt.Fprintf(hash, "%q %s\n", arg, s.content(spec.Dir, arg))
	}
	return filepath.Join(s.Dir, hex.EncodeToString(hash.Sum(nil))+".json"), nil
}

// content is the digest of the file that an argument names, if it does.
func (s Schemas) content(dir, arg string) string {
	if !filepath.IsAbs(arg) {
		arg = filepath.Join(dir, arg)
	}
	if info, err := os.Stat(arg); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	sum, _ := s.Binaries.SHA256(arg) // one that cannot be read says nothing
	return sum
}

// prune removes the oldest schemas if there are too many.
func (s Schemas) prune() error {
	entries, err := os.ReadDir(s.Dir)
	if err != nil || len(entries) <= maxRemembered {
		return err
	}
	age := make(map[string]int64)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			age[entry.Name()] = info.ModTime().UnixNano()
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return int(min(max(age[a.Name()]-age[b.Name()], -1), 1)) })
	var errs []error
	for _, entry := range entries[:len(entries)-maxRemembered] {
		errs = append(errs, os.Remove(filepath.Join(s.Dir, entry.Name())))
	}
	return errors.Join(errs...)
}
