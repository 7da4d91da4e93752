//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tell tells all that there is to know of a violation, and keeps the state
// directory.
func (t *tester) tell(violation error, actions []action, last int) {
	w := t.out
	fmt.Fprintf(w, "\nVIOLATION, with seed %d, after %d of %d steps:\n%v\n", t.seed, last, len(actions), violation)

	fmt.Fprint(w, "\nThe steps so far:\n")
	for i, a := range actions[:min(last+1, len(actions))] {
		if len(t.only) == 0 || slices.Contains(t.only, i+1) {
			fmt.Fprintf(w, "%4d  %v\n", i+1, a)
		}
	}

	fmt.Fprint(w, "\nThe services:\n")
	if status, err := t.status(); err != nil {
		fmt.Fprintf(w, "  %v\n", err)
	} else {
		encoder := json.NewEncoder(w)
		for _, service := range status.Services {
			_ = encoder.Encode(service)
		}
	}

	fmt.Fprint(w, "\nThe processes of the installation, and of its host:\n")
	for _, p := range processes() {
		if p.environ[envInstallation] != "" || p.pid == t.host.pid || p.parent == t.host.pid {
			fmt.Fprintf(w, "  %v\n", p)
		}
	}

	fmt.Fprint(w, "\nThe last lines of the hosts, each with the pid of its host:\n")
	t.tail.write(w, 120)

	for _, s := range t.world.services {
		if strings.Contains(violation.Error(), s.name) {
			fmt.Fprintf(w, "\nThe last lines of the log of %s:\n", s.label())
			for _, line := range lastLines(filepath.Join(t.stateDir, "logs", s.label()+".jsonl"), 30) {
				fmt.Fprintf(w, "  %s\n", line)
			}
		}
	}

	if dir, err := t.keep(); err != nil {
		fmt.Fprintf(w, "\nThe state directory could not be kept: %v\n", err)
	} else {
		fmt.Fprintf(w, "\nThe state directory and the configuration are kept in %s\n", dir)
	}
	fmt.Fprintf(w, "The same storm again: make chaos STEPS=%d SEED=%d (CHAOSFLAGS='-only 1,2,3' does only some of its steps)\n", t.steps, t.seed)
}

// keep copies the state directory to where it outlives this program.
func (t *tester) keep() (string, error) {
	kept, err := os.MkdirTemp("", "chaos-kept-")
	if err != nil {
		return "", err
	}
	base := filepath.Dir(t.config)
	err = filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it was removed meanwhile
		}
		rel, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		target := filepath.Join(kept, rel)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case entry.Type().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				return nil //nolint:nilerr // it was removed meanwhile
			}
			return os.WriteFile(target, content, 0o600)
		}
		return nil
	})
	return kept, err
}

func lastLines(path string, n int) []string {
	file, err := os.Open(path)
	if err != nil {
		return []string{err.Error()}
	}
	defer file.Close()
	var lines []string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
		if len(lines) > 2*n {
			lines = slices.Clone(lines[n:])
		}
	}
	return lines[max(0, len(lines)-n):]
}
