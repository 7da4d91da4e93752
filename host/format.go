package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
)

// exitUnformatted is fmt's exit status if --check found something to change;
// Terraform has the same.
const exitUnformatted = 3

// stdinName is how standard input is called in arguments and messages.
const (
	stdinArgument = "-"
	stdinName     = "<stdin>"
)

// formatter lays out files.
type formatter struct {
	out, errOut io.Writer
	check, diff bool

	changed bool // whether a file is, or would be
	failed  bool // whether one could not be formatted
}

func newFmtCommand() *cobra.Command {
	var f formatter
	cmd := &cobra.Command{
		Use:   "fmt [PATH...]",
		Short: "Lay out configuration files in the canonical way",
		Long: `Rewrite configuration files in the canonical layout, and print the names of
those that changed. PATH is a file or a directory, whose subdirectories are not
read; without one it is the working directory. With - standard input is laid
out to standard output.

Only space between words changes. A file that is no HCL, or that would mean
something else afterwards, is left as it is. Files are replaced whole, or not
at all; symbolic links, owner and mode stay. Files in the JSON form of the
language are passed over.

Exit status: 0 done, 1 failed; with --check 3 if a file is not in that layout.`,
		Example: "  plughost fmt\n  plughost fmt --check --diff /etc/plughost\n  plughost fmt - <services.hcl",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return []cobra.Completion{"hcl"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.out, f.errOut = cmd.OutOrStdout(), cmd.ErrOrStderr()
			switch {
			case len(args) == 0:
				f.paths([]string{"."})
			case !slices.Contains(args, stdinArgument):
				f.paths(args)
			case len(args) == 1:
				f.failure(f.stream(cmd.InOrStdin()))
			default:
				return usageError{errors.New("standard input cannot be formatted together with files")}
			}
			switch {
			case f.failed:
				return errReported
			case f.check && f.changed:
				return exitError(exitUnformatted)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&f.check, "check", false, "change nothing, and exit with status 3 if a file is not formatted")
	cmd.Flags().BoolVar(&f.diff, "diff", false, "show what changes")
	return cmd
}

// paths formats files and directories. One that fails does not keep the others
// from being formatted.
func (f *formatter) paths(paths []string) {
	for _, path := range paths {
		files, err := config.NativeFiles(path)
		f.failure(err)
		for _, file := range files {
			f.failure(f.file(file))
		}
	}
}

// failure reports an error, if it is one and was not reported yet.
func (f *formatter) failure(err error) {
	if err == nil {
		return
	}
	f.failed = true
	if !errors.Is(err, errReported) {
		fmt.Fprintf(f.errOut, "plughost: %v\n", err)
	}
}

// file formats one file.
func (f *formatter) file(path string) error {
	if filepath.Ext(path) != ".hcl" {
		return fmt.Errorf("cannot format %s: its name does not end in .hcl", path)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	formatted, err := f.format(path, src)
	if err != nil || bytes.Equal(src, formatted) {
		return err
	}
	if !f.check {
		if err := replaceFile(path, formatted); err != nil {
			return fmt.Errorf("cannot format %s: %w", path, err)
		}
	}
	fmt.Fprintln(f.out, path)
	f.show(path, src, formatted)
	return nil
}

// stream formats standard input.
func (f *formatter) stream(in io.Reader) error {
	src, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("cannot read standard input: %w", err)
	}
	formatted, err := f.format(stdinName, src)
	if err != nil {
		return err
	}
	switch {
	case f.diff:
		f.show(stdinName, src, formatted)
	case !f.check:
		_, err = f.out.Write(formatted)
	}
	return err
}

// format formats a text, and shows what is wrong with one that cannot be.
func (f *formatter) format(name string, src []byte) ([]byte, error) {
	formatted, diags := config.Format(name, src)
	if diags.HasErrors() {
		return nil, errors.Join(errReported, writeDiagnostics(f.errOut, diags))
	}
	f.changed = f.changed || !bytes.Equal(src, formatted)
	return formatted, nil
}

// show shows what changed, if that was asked for.
func (f *formatter) show(name string, before, after []byte) {
	if f.diff {
		fmt.Fprint(f.out, udiff.Unified("old/"+name, "new/"+name, string(before), string(after)))
	}
}

// replaceFile writes a file that is there whole or not at all. It stays where
// symbolic links lead to, with its mode and its owner.
func replaceFile(path string, content []byte) (err error) {
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+strings.TrimSuffix(filepath.Base(path), ".hcl")+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp.Name()))
		}
	}()
	_, err = temp.Write(content)
	err = errors.Join(err, keepOwner(temp, info), temp.Chmod(info.Mode().Perm()), temp.Sync(), temp.Close())
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
