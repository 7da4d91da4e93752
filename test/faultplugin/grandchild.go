//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What a grandchild is like, in words. One that is "plain" is none of this, and
// dies of SIGTERM.
const (
	// It does not die of SIGTERM.
	stubborn = "stubborn"
	// At SIGTERM it starts another one like itself, in a session of its own,
	// and exits. The last of the heirs just exits.
	heir = "heir"
	// It has stopped itself with SIGSTOP.
	stopped = "stopped"
	// Its environment is empty.
	scrubbed = "scrubbed"
	// It is a daemon: in a session of its own, its parent gone.
	daemon = "daemon"
	// It is the root of a tree of treeSize like itself.
	tree = "tree"
)

const (
	treeSize = 30
	heirs    = 3
)

// life bounds a grandchild's life, for one that no test ends.
const life = 5 * time.Minute

// startGrandchild returns when a daemon's parent is gone.
func startGrandchild(words string) error {
	cmd, err := relative(words, os.Getenv(envPIDs), 0)
	if err != nil {
		return err
	}
	if !has(words, daemon) {
		return cmd.Start()
	}
	cmd.Args = slices.Insert(cmd.Args, 2, "daemonize")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Run()
}

// startShell starts a script, and reaps its shell when that ends.
func startShell(script string) error {
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// relative is a grandchild to be: the n-th of its tree or line.
func relative(words, dir string, n int) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// The same, built without the race detector, is cheaper to start.
	if plain := filepath.Join(filepath.Dir(self), "grandchild"); executable(plain) {
		self = plain
	}
	cmd := exec.Command(self, "grandchild", words, dir, strconv.Itoa(n))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if has(words, scrubbed) {
		cmd.Env = []string{}
	}
	return cmd, nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o100 != 0
}

func has(words, word string) bool { return slices.Contains(strings.Fields(words), word) }

// grandchild lives until it is killed.
func grandchild(args []string) {
	daemonize := args[0] == "daemonize"
	if daemonize {
		args = args[1:]
	}
	words, dir := args[0], args[1]
	n, err := strconv.Atoi(args[2])
	must(err)
	if daemonize {
		cmd, err := relative(words, dir, n)
		must(err)
		must(cmd.Start())
		return
	}
	// For leave. What a scrubbed one was executed with stays empty.
	must(os.Setenv(envPIDs, dir))

	terminate := make(chan os.Signal, 1)
	if has(words, stubborn) || has(words, heir) {
		signal.Notify(terminate, syscall.SIGTERM)
	}
	if has(words, tree) {
		for child := 2*n + 1; child <= 2*n+2 && child < treeSize; child++ {
			cmd, err := relative(words, dir, child)
			must(err)
			must(cmd.Start())
		}
	}
	must(leave("grandchild"))
	if has(words, stopped) {
		must(syscall.Kill(os.Getpid(), syscall.SIGSTOP))
	}
	end := time.After(life)
	for {
		select {
		case <-terminate:
			must(leave("signalled"))
			if has(words, heir) {
				inherit(words, dir, n+1)
				return
			}
		case <-end:
			return
		}
	}
}

func inherit(words, dir string, n int) {
	if n > heirs {
		return
	}
	cmd, err := relative(words, dir, n)
	must(err)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(cmd.Start())
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
