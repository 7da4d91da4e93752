package config

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// path reads a path and makes it absolute; a relative one begins at the
// directory of the file.
func (d *decoder) path(attrs hcl.Attributes, name string) val[string] {
	p := d.str(attrs, name, "")
	if !p.Set {
		return p
	}
	if p.V == "" {
		d.diags.errorf(p.Range, "Empty path", "%s: a path is wanted. Leave the argument out to have the default.", name)
		p.Set = false
		return p
	}
	abs, ok := d.absolute(p.V, p.Range, name)
	p.V, p.Set = abs, ok
	return p
}

func (d *decoder) absolute(path string, rng hcl.Range, name string) (string, bool) {
	if path == "~" || strings.HasPrefix(path, "~/") {
		d.diags.errorf(rng, "Path begins with ~", "%s: only a shell knows what ~ stands for. Write the whole path.", name)
		return "", false
	}
	switch {
	case filepath.IsAbs(path):
	case path != "" && os.IsPathSeparator(path[0]):
		path = filepath.VolumeName(d.src.dir) + path // Windows: on the same drive
	default:
		path = filepath.Join(d.src.dir, path)
	}
	return filepath.Clean(path), true
}

// directory reads the path of a directory, which must exist.
func (d *decoder) directory(attrs hcl.Attributes, name string) val[string] {
	p := d.path(attrs, name)
	if !p.Set {
		p.V = d.src.dir
		return p
	}
	info, err := os.Stat(p.V)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.diags.errorf(p.Range, "Directory not found", "%s: there is no directory %s.", name, quote(p.V))
	case err != nil:
		d.diags.errorf(p.Range, "Directory not found", "%s: %s: %s.", name, quote(p.V), reason(err))
	case !info.IsDir():
		d.diags.errorf(p.Range, "Not a directory", "%s: %s is a file.", name, quote(p.V))
	}
	return p
}

// argumentsWanted says what the elements of an argument vector are.
const argumentsWanted = "one element per argument"

// arguments is an argument vector as it was read from an attribute.
type arguments struct {
	name   string
	attr   *hcl.Attribute
	list   []val[string]
	ok     bool // no element was faulty
	absent bool // there is none, or it is null
}

func (d *decoder) arguments(attrs hcl.Attributes, name string) arguments {
	list, set, ok := d.strings(attrs, name, argumentsWanted)
	return arguments{name: name, attr: attrs[name], list: list, ok: ok, absent: !set && ok}
}

// command returns an argument vector, and finds the executable.
func (d *decoder) command(given arguments) (argv []string, path string) {
	for _, item := range given.list {
		argv = append(argv, item.V)
	}
	if given.ok && len(argv) == 0 {
		d.diags.errorf(given.attr.Expr.Range(), "Empty command", "%s: the first element names the program; there is none.", given.name)
		return nil, ""
	}
	// After a faulty element the first one in the list need not be the program.
	if given.ok {
		path = d.executable(given.list[0], given.name)
	}
	return argv, path
}

// executable returns the absolute path of a program: looked up on PATH if it is
// a bare name, else relative to the directory of the file.
func (d *decoder) executable(program val[string], attr string) string {
	name := program.V
	if name == "" {
		d.diags.errorf(program.Range, "Empty command", "%s: the first element names the program; it is empty.", attr)
		return ""
	}
	if !isPath(name) {
		return d.onPath(program, attr)
	}
	path, ok := d.absolute(name, program.Range, attr)
	if !ok {
		return ""
	}
	if runtime.GOOS == "windows" {
		// The extension may be left out there.
		if found, err := exec.LookPath(path); err == nil {
			path = found
		}
	}
	if problem := notExecutable(path); problem != "" {
		d.diags.errorf(program.Range, "Program not found", "%s: looked for %s: %s.", attr, quote(path), problem)
		return ""
	}
	return path
}

func (d *decoder) onPath(program val[string], attr string) string {
	name := program.V
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	switch {
	case err == nil:
		if problem := notExecutable(path); problem != "" {
			d.diags.errorf(program.Range, "Program not found", "%s: PATH leads to %s: %s.", attr, quote(path), problem)
			return ""
		}
		return path
	case errors.Is(err, exec.ErrDot):
		d.diags.errorf(program.Range, "Program not found",
			"%s: PATH leads to %s in the current directory, which is not trusted. Write a path.", attr, quote(name))
		return ""
	}
	hint := "Install it, or write its path."
	if beside := filepath.Join(d.src.dir, name); notExecutable(beside) == "" {
		hint = "There is one beside this file: write " + quote("./"+name) + "."
	} else if strings.ContainsAny(name, " \t") {
		hint = "Each argument is an element of its own: a space does not separate them."
	}
	d.diags.errorf(program.Range, "Program not found", "%s: %s was looked for in the directories of PATH, and not found. %s", attr, quote(name), hint)
	return ""
}

// isPath reports whether a program is given by path rather than by name.
func isPath(name string) bool {
	return strings.ContainsRune(name, '/') || strings.ContainsRune(name, os.PathSeparator) || filepath.VolumeName(name) != ""
}

// notExecutable says why the file at an absolute path cannot be executed, or
// nothing if it can.
func notExecutable(path string) string {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return reason(err)
	case info.IsDir():
		return "it is a directory"
	case !info.Mode().IsRegular():
		return "it is not a regular file"
	}
	if _, err := exec.LookPath(path); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return "it is not executable"
		}
		return reason(err)
	}
	return ""
}

// reason returns what the system says, without the path, which the message
// names already.
func reason(err error) string {
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	if execErr := (*exec.Error)(nil); errors.As(err, &execErr) {
		err = execErr.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	return err.Error()
}
