//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"github.com/plughost/plughost/shared/bridge"
	"github.com/plughost/plughost/shared/marker"
	"github.com/plughost/plughost/shared/wire"
)

// endAt is a server that ends when it was asked in so many ways, and says how it
// was: there are two before SIGKILL.
func endAt(asked string) error {
	ways, err := strconv.Atoi(asked)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	input := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(input)
	}()
	fmt.Println(`{"jsonrpc":"2.0","method":"ready"}`)
	for range ways {
		select {
		case <-input:
			fmt.Fprintln(os.Stderr, "end of input")
			input = nil
		case s := <-signals:
			fmt.Fprintln(os.Stderr, s)
		}
	}
	return nil
}

// A server is asked more and more firmly, and no more firmly than it takes.
func TestServerIsAskedToEndBeforeItIsMadeTo(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]struct {
		heard string
		by    syscall.Signal
	}{
		"1": {"end of input\n", 0},
		"2": {"end of input\nterminated\n", 0},
		"3": {"end of input\nterminated\n", syscall.SIGKILL},
	} {
		t.Run("it ends when asked "+asked+" times", func(t *testing.T) {
			t.Parallel()
			var heard bytes.Buffer
			start := launcher{
				target: bridge.Target{Path: self, Args: []string{self, "end", asked}},
				stderr: &heard, log: log.New(t.Output(), "", 0), spawn: newSpawner(),
			}
			ready := make(chan struct{})
			server, err := start.start(func(wire.Message) { close(ready) })
			if err != nil {
				t.Fatal(err)
			}
			within(t, ready, "the server runs")
			ctx, cancel := context.WithTimeout(t.Context(), patience) // or each way has less time
			defer cancel()
			if err := server.stop(ctx, marker.Identity{}); err != nil {
				t.Error(err)
			}
			if heard.String() != want.heard {
				t.Errorf("it heard %q, want %q", heard.String(), want.heard)
			}
			var killed syscall.Signal
			if exit := (*exec.ExitError)(nil); errors.As(server.waitErr, &exit) {
				killed = exit.Sys().(syscall.WaitStatus).Signal()
			}
			if killed != want.by {
				t.Errorf("it ended with %v", server.waitErr)
			}
		})
	}
}
