// Package scaffold writes the module of a new plugin, from which its author
// goes on.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// The kinds of plugin.
const (
	KindMCP   = "mcp"
	KindAgent = "agent"
)

// Plugin says what to write.
type Plugin struct {
	// Name is the plugin's, and that of its binary.
	Name string
	// Kind is KindMCP or KindAgent.
	Kind string
	// Module is the path of the Go module.
	Module string
	// Replace is the directory of a checkout of plughost to build against, or
	// empty for the published module.
	Replace string
}

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)

// ErrNotEmpty says that there is something in the directory already.
var ErrNotEmpty = errors.New("the directory is not empty: name another one with --dir, or remove what is in it")

// Write writes the module into a directory, which is made if there is none, and
// returns the names of the files. What is there already is never overwritten.
func (p Plugin) Write(dir string) (files []string, err error) {
	if !namePattern.MatchString(p.Name) {
		return nil, fmt.Errorf("%q is no name of a plugin: it begins with a small letter and goes on with small letters, digits and dashes, 40 characters at most", p.Name)
	}
	if p.Kind != KindMCP && p.Kind != KindAgent {
		return nil, fmt.Errorf("%q is no kind of plugin: it is %s or %s", p.Kind, KindMCP, KindAgent)
	}
	content, err := p.render()
	if err != nil {
		return nil, err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("cannot write into %s: %w", dir, ErrNotEmpty)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, file := range content {
		if err := os.WriteFile(filepath.Join(dir, file.name), file.text, 0o644); err != nil {
			return nil, err
		}
		files = append(files, file.name)
	}
	return files, nil
}

type file struct {
	name string
	text []byte
}

// render makes the files of the templates of the kind, and of those of all.
func (p Plugin) render() (files []file, err error) {
	for _, dir := range []string{"common", p.Kind} {
		dir = path.Join("templates", dir)
		entries, err := fs.ReadDir(templates, dir)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			made, err := template.ParseFS(templates, path.Join(dir, entry.Name()))
			if err != nil {
				return nil, err
			}
			var text bytes.Buffer
			if err := made.Execute(&text, p); err != nil {
				return nil, err
			}
			files = append(files, file{strings.TrimSuffix(entry.Name(), ".tmpl"), text.Bytes()})
		}
	}
	return files, nil
}
