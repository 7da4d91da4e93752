//go:build unix

package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
)

// listenForNews opens a socket like a service manager's, and names it in the
// environment.
func listenForNews(t *testing.T) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify-")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("NOTIFY_SOCKET", path)
	return conn
}

// A service manager that does not read must not keep a host from its stop.
func TestAServiceManagerIsNotWaitedForLong(t *testing.T) {
	manager := listenForNews(t)
	fill, err := net.DialUnix("unixgram", nil, manager.LocalAddr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer fill.Close()
	for err == nil {
		_ = fill.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		_, err = fill.Write([]byte("STATUS=nobody reads this"))
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		systemd{hclog.NewNullLogger()}.stopping()
	}()
	select {
	case <-told:
	case <-time.After(30 * time.Second):
		t.Error("it waits for who does not read")
	}
}

// Each ping comes after a proof of life of its own: when the host no longer
// gives one, there is none.
func TestWatchdogPingsAreProofsOfLife(t *testing.T) {
	conn := listenForNews(t)
	t.Setenv("WATCHDOG_USEC", "3000")
	t.Setenv("WATCHDOG_PID", "")
	ctx, cancel := context.WithCancel(t.Context())
	proofs := 0
	buffer := make([]byte, 100)
	systemd{hclog.NewNullLogger()}.watchdog(ctx, func() {
		if proofs > 0 {
			if n, err := conn.Read(buffer); err != nil || string(buffer[:n]) != "WATCHDOG=1" {
				t.Errorf("after %d proofs of life there is %q (%v)", proofs, buffer[:n], err)
			}
		}
		if proofs++; proofs == 3 {
			cancel()
		}
	})
	if proofs != 3 {
		t.Errorf("there were %d proofs of life, want 3", proofs)
	}
}

func TestStartIsOverWhenNothingIsUnderWay(t *testing.T) {
	status := func(states ...supervise.State) (all []supervise.Status) {
		for i, state := range states {
			all = append(all, supervise.Status{Service: config.Ref{Kind: "mcp", Name: string(rune('a' + i))}, State: state})
		}
		return all
	}
	tests := []struct {
		name     string
		services []supervise.Status
		settled  bool
		summary  string
	}{
		{"none", nil, true, "0 of 0 services ready"},
		{"all are ready", status(supervise.Ready), true, "1 of 1 service ready"},
		{"one starts", status(supervise.Ready, supervise.Starting), false, "1 of 2 services ready: mcp.b is starting"},
		{"a failed start is cleaned up", status(supervise.Stopping), false, "0 of 1 service ready: mcp.a is stopping"},
		{"one is tried again later, another waits for it", status(supervise.Backoff, supervise.Waiting), true, "0 of 2 services ready: mcp.a is backoff, mcp.b is waiting"},
		{"too many to name", status("s", "s", "s", "s", "s", "s"), true, "0 of 6 services ready: mcp.a is s, mcp.b is s, mcp.c is s, mcp.d is s, mcp.e is s, and so on"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := settled(test.services); got != test.settled {
				t.Errorf("settled is %v, want %v", got, test.settled)
			}
			if got := summary(test.services); got != test.summary || strings.Contains(got, "\n") {
				t.Errorf("the summary is %q, want %q", got, test.summary)
			}
		})
	}
}
