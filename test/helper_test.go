//go:build unix

package test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
)

// envHelper has the test binary be one of the processes below instead.
const envHelper = "PLUGHOST_TEST_HELPER"

// helpers are strangers to every installation. Each writes "ready" when it is,
// and lives until its standard input ends.
var helpers = map[string]func(args []string) error{
	"listen": helperListen,
	"watch":  helperWatch,
}

func runHelper() bool {
	args := strings.Fields(os.Getenv(envHelper))
	if len(args) == 0 {
		return false
	}
	if err := helpers[args[0]](args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return true
}

// helperListen listens on a port.
func helperListen(args []string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:"+args[0])
	if err != nil {
		return err
	}
	defer listener.Close()
	return untilInputEnds()
}

// helperWatch writes every signal that it gets to a file and, if it is given
// the path of a socket to listen on, every connection.
func helperWatch(args []string) error {
	file, err := os.Create(args[0])
	if err != nil {
		return err
	}
	defer file.Close()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals)
	go func() {
		for sig := range signals {
			if sig != syscall.SIGURG { // the Go runtime's own
				fmt.Fprintln(file, sig)
			}
		}
	}()
	if len(args) > 1 {
		listener, err := net.Listen("unix", args[1])
		if err != nil {
			return err
		}
		go func() {
			for {
				if _, err := listener.Accept(); err != nil {
					return
				}
				fmt.Fprintln(file, "a connection")
			}
		}()
	}
	return untilInputEnds()
}

func untilInputEnds() error {
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
	return nil
}

// startHelper starts a helper and waits until it is ready. It ends with the
// test.
func startHelper(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return startHelperWith(t, nil, args...)
}

func startHelperWith(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), env...), envHelper+"="+strings.Join(args, " "))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if cmd.ProcessState == nil {
			_ = cmd.Wait()
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || line != "ready\n" {
		t.Fatalf("the helper %v is not ready: %q, %v", args, line, err)
	}
	return cmd
}

// endProcess kills a helper before the end of its test.
func endProcess(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}
