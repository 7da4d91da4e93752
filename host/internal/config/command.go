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

// command reads the argument vector, and finds the executable.
func (d *decoder) command(content *hcl.BodyContent, misspelt bool) (argv []string, path string) {
	const want = "one element per argument"
	list, set, ok := d.strings(content.Attributes, "command", want)
	if !set {
		rng := content.MissingItemRange
		switch attr := content.Attributes["command"]; {
		case attr != nil && ok:
			d.diags.errorf(attr.Expr.Range(), "A list is wanted", "command: it is null; a list is wanted, %s.", want)
		case attr == nil && !misspelt:
			d.diags.errorf(rng, "Missing command", `A service needs the argument "command": a list of strings, %s.`, want)
		}
		return nil, ""
	}
	for _, item := range list {
		argv = append(argv, item.V)
	}
	if ok && len(list) == 0 {
		d.diags.errorf(content.Attributes["command"].Expr.Range(), "Empty command", "command: the first element names the program; there is none.")
		return nil, ""
	}
	// After a faulty element the first one in the list need not be the program.
	if ok {
		path = d.executable(list[0])
	}
	return argv, path
}

// executable returns the absolute path of a program: looked up on PATH if it is
// a bare name, else relative to the directory of the file.
func (d *decoder) executable(program val[string]) string {
	name := program.V
	if name == "" {
		d.diags.errorf(program.Range, "Empty command", "command: the first element names the program; it is empty.")
		return ""
	}
	if !isPath(name) {
		return d.onPath(program)
	}
	path, ok := d.absolute(name, program.Range, "command")
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
		d.diags.errorf(program.Range, "Program not found", "command: looked for %s: %s.", quote(path), problem)
		return ""
	}
	return path
}

func (d *decoder) onPath(program val[string]) string {
	name := program.V
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	switch {
	case err == nil:
		if problem := notExecutable(path); problem != "" {
			d.diags.errorf(program.Range, "Program not found", "command: PATH leads to %s: %s.", quote(path), problem)
			return ""
		}
		return path
	case errors.Is(err, exec.ErrDot):
		d.diags.errorf(program.Range, "Program not found",
			"command: PATH leads to %s in the current directory, which is not trusted. Write a path.", quote(name))
		return ""
	}
	hint := "Install it, or write its path."
	if beside := filepath.Join(d.src.dir, name); notExecutable(beside) == "" {
		hint = "There is one beside this file: write " + quote("./"+name) + "."
	} else if strings.ContainsAny(name, " \t") {
		hint = "Each argument is an element of its own: a space does not separate them."
	}
	d.diags.errorf(program.Range, "Program not found", "command: %s was looked for in the directories of PATH, and not found. %s", quote(name), hint)
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
