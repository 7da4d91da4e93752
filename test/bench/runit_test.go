//go:build linux

package bench

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// envListener has this test binary be a service that only listens on a port of
// its own, and tells the socket of this address that it does.
const envListener = "PLUGHOST_BENCH_LISTENER"

func listenForEver(address string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	conn, err := net.Dial("unixgram", address)
	if err != nil {
		return err
	}
	if _, err := conn.Write([]byte{1}); err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		conn.Close()
	}
}

// listeners hears of services that only listen.
type listeners struct {
	dir, address string
	conn         *net.UnixConn
}

func newListeners(b *testing.B) *listeners {
	b.Helper()
	dir, err := os.MkdirTemp("", "plughost-listeners-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	l := &listeners{dir: dir, address: filepath.Join(dir, "told")}
	l.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: l.address, Net: "unixgram"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.conn.Close() })
	return l
}

// wait waits until n services listen.
func (l *listeners) wait(b *testing.B, n int) {
	b.Helper()
	if err := l.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		b.Fatal(err)
	}
	for range n {
		if _, err := l.conn.Read(make([]byte, 1)); err != nil {
			b.Fatal(err)
		}
	}
}

// bareListeners is the bare cost of starting n services that only listen.
func bareListeners(b *testing.B, l *listeners, n int) time.Duration {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	cmds := make([]*exec.Cmd, n)
	for i := range cmds {
		cmds[i] = exec.Command(self)
		cmds[i].Env = []string{envListener + "=" + l.address}
		if err := cmds[i].Start(); err != nil {
			b.Fatal(err)
		}
	}
	l.wait(b, n)
	took := time.Since(start)
	for _, cmd := range cmds {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return took
}

// runitStart has runit start n services that only listen. It returns how long
// that took, from the start of its scan to the last that listens.
func runitStart(b *testing.B, l *listeners, n int) time.Duration {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	services, err := os.MkdirTemp(l.dir, "services-")
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		dir := filepath.Join(services, "s"+strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			b.Fatal(err)
		}
		script := fmt.Sprintf("#!/bin/sh\n%s=%s exec %s\n", envListener, l.address, self)
		if err := os.WriteFile(filepath.Join(dir, "run"), []byte(script), 0o700); err != nil {
			b.Fatal(err)
		}
	}
	start := time.Now()
	cmd := exec.Command("runsvdir", services)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	l.wait(b, n)
	took := time.Since(start)
	// At SIGHUP it has its services ended, and exits.
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		b.Fatal(err)
	}
	_ = cmd.Wait()
	return took
}
