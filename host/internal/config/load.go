package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
)

const (
	nativeSuffix = ".hcl"
	jsonSuffix   = ".hcl.json"
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// loader holds the state of one load. Nothing of it outlives the load, so that
// the next one sees the files as they are then.
type loader struct {
	diags   collector
	sources []*source
	names   []string // of all files, in the order they were read
	files   map[string]*hcl.File
	seen    map[string]bool // absolute paths
	size    int             // of all files, in bytes
	partial bool            // a file could not be read or parsed
}

// source is a file that was parsed without a fault.
type source struct {
	name string // as ranges carry it
	text []byte
	dir  string // absolute path of the directory of the file
	json bool
	body hcl.Body
}

func (l *loader) path(path string) {
	info, err := os.Stat(path)
	if err != nil {
		l.unreadable(path, err)
		return
	}
	if !info.IsDir() {
		if !strings.HasSuffix(path, nativeSuffix) && !strings.HasSuffix(path, jsonSuffix) {
			l.partial = true
			l.diags.errorf(hcl.Range{Filename: path}, "Not a configuration file",
				"The name %s ends in neither %s nor %s.", quote(path), nativeSuffix, jsonSuffix)
			return
		}
		l.file(path, info)
		return
	}

	entries, err := os.ReadDir(path)
	if err != nil {
		l.unreadable(path, err)
		return
	}
	found := false
	for _, entry := range entries {
		if !isConfigName(entry.Name()) {
			continue
		}
		name := filepath.Join(path, entry.Name())
		info, err := os.Stat(name)
		if err != nil {
			found = true
			l.unreadable(name, err)
			continue
		}
		if info.IsDir() {
			continue
		}
		found = true
		l.file(name, info)
	}
	if !found {
		l.partial = true
		l.diags.errorf(hcl.Range{Filename: path}, "No configuration",
			"The directory %s holds no file that ends in %s or %s.", quote(path), nativeSuffix, jsonSuffix)
	}
}

// isConfigName reports whether a directory entry is read; what editors leave
// behind is not.
func isConfigName(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") || strings.HasSuffix(name, "~") {
		return false
	}
	return strings.HasSuffix(name, nativeSuffix) || strings.HasSuffix(name, jsonSuffix)
}

func (l *loader) unreadable(path string, err error) {
	l.partial = true
	reason := err
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		reason = pathErr.Err
	}
	l.diags.osError("Configuration cannot be read", err, "%s: %s.", quote(path), reason)
}

// file reads and parses one file.
func (l *loader) file(name string, info fs.FileInfo) {
	abs, err := filepath.Abs(name)
	if err != nil {
		l.unreadable(name, err)
		return
	}
	if l.seen[abs] {
		return
	}
	l.seen[abs] = true
	l.names = append(l.names, name)

	if !info.Mode().IsRegular() {
		l.partial = true
		l.diags.errorf(hcl.Range{Filename: name}, "Configuration cannot be read", "%s is not a regular file.", quote(name))
		return
	}
	src, err := readLimited(name)
	if err != nil {
		l.unreadable(name, err)
		return
	}
	if l.size += len(src); l.size > maxSize {
		l.partial = true
		if l.size-len(src) <= maxSize { // else that has been reported
			l.diags.errorf(hcl.Range{Filename: name}, "Configuration too large",
				"All files together have more than %s. From %s on they are not read.", sizeText(maxSize), quote(name))
		}
		return
	}
	s := &source{name: name, text: src, dir: filepath.Dir(abs), json: strings.HasSuffix(name, jsonSuffix)}
	if !l.parse(s, src) {
		l.partial = true
		return
	}
	l.sources = append(l.sources, s)
}

// readRegular reads a file that is none of the kinds that never end.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	return readLimited(path)
}

// readLimited reads a file, but no more of it than it takes to see that it is
// too large.
func readLimited(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFileSize+1))
}

// parse fills in the body of a file, and reports whether there was no fault.
func (l *loader) parse(s *source, src []byte) bool {
	// Until the file is parsed, its bytes alone serve the messages.
	l.files[s.name] = &hcl.File{Bytes: src, Body: hcl.EmptyBody()}

	before := len(l.diags.list)
	text := bytes.TrimPrefix(src, byteOrderMark)
	start := hcl.InitialPos
	start.Byte = len(src) - len(text)

	var file *hcl.File
	var diags hcl.Diagnostics
	if s.json {
		if !guardJSON(src, text, s.name, &l.diags) {
			return false
		}
		file, diags = json.ParseWithStartPos(text, s.name, start)
		if len(diags) > 1 {
			// Where there is a fault in the root value, it is not missing.
			diags = slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool { return d.Summary == "Root value must be object" })
		}
	} else {
		open, ok := guardNative(src, s.name, &l.diags)
		if !ok {
			return false
		}
		file, diags = hclsyntax.ParseConfig(src, s.name, hcl.InitialPos)
		if open != nil {
			diags = open.explain(src, diags)
		}
	}
	l.diags.native(fewer(diags, s.name))
	if file == nil || file.Body == nil {
		return len(l.diags.list) == before
	}
	file.Bytes = src
	l.files[s.name] = file
	s.body = file.Body
	return !diags.HasErrors()
}

// maxSyntaxFaults bounds the faults that are reported of a file that is not HCL
// at all, in which there may be one at every byte.
const maxSyntaxFaults = 100

func fewer(diags hcl.Diagnostics, name string) hcl.Diagnostics {
	if len(diags) <= maxSyntaxFaults {
		return diags
	}
	slices.SortStableFunc(diags, func(a, b *hcl.Diagnostic) int { return cmp.Compare(firstByte(a), firstByte(b)) })
	return append(slices.Clone(diags[:maxSyntaxFaults]), &hcl.Diagnostic{
		Severity: hcl.DiagError,
		Summary:  "Too many faults",
		Detail:   fmt.Sprintf("There are %d more in %s. Is it a configuration at all?", len(diags)-maxSyntaxFaults, quote(name)),
		Subject:  diags[maxSyntaxFaults].Subject,
	})
}

func firstByte(d *hcl.Diagnostic) int {
	if d.Subject == nil {
		return 0
	}
	return d.Subject.Start.Byte
}
