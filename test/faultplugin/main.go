//go:build unix

// Command faultplugin is an MCP plugin that does what plugins should not, as
// its environment and the callers of its tools tell it. Only the tests run it.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/go-plugin"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared"
	"github.com/plughost/plughost/shared/mcpplugin"
)

// What the environment can ask for, in the order in which it is done.
const (
	// envPIDs: leave a file in this directory, plugin-<pid>, and have each
	// grandchild leave one, grandchild-<pid>, when it is set up. One that gets
	// SIGTERM and does not die of it leaves another, signalled-<pid>.
	envPIDs = "FAULT_PIDS"
	// envEarly: write the contents of this file to standard output and to
	// standard error before anything else is written there.
	envEarly = "FAULT_EARLY"
	// envExit: write a line to standard error and exit with this status.
	envExit = "FAULT_EXIT"
	// envGrandchild: start a process that holds the plugin's output and lives
	// on. What it is like is said in words; see grandchild.go.
	envGrandchild = "FAULT_GRANDCHILD"
	// envShell: run this shell script beside the plugin, which holds its output.
	// It makes grandchildren that cost less than those of above.
	envShell = "FAULT_SHELL"
	// envDelay: wait so long before the handshake.
	envDelay = "FAULT_DELAY"
	// envHandshake: write this line instead of a handshake of one's own, and
	// do nothing more. $DIR in it is the directory for the plugin's socket, in
	// which mute.sock takes connections and never says a word.
	envHandshake = "FAULT_HANDSHAKE"
	// envFlood: write so many lines to standard error, all at once, each
	// second.
	envFlood = "FAULT_FLOOD"
	// envListen: listen on the service's port, beside all else.
	envListen = "FAULT_LISTEN"
	// envDeaf: answer in no session, and write a line to standard error of each
	// question.
	envDeaf = "FAULT_DEAF"
	// envStubborn: live on when asked to end, by whatever but SIGKILL.
	envStubborn = "FAULT_STUBBORN"
)

// The plugin's own streams: go-plugin puts others into their place.
var (
	stdout = os.Stdout
	stderr = os.Stderr
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "grandchild" {
		grandchild(os.Args[2:])
		return
	}
	if err := misbehave(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "fault", Version: "1"}, nil)
	addTools(server)
	if os.Getenv(envDeaf) != "" {
		server.AddReceivingMiddleware(func(mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, _ mcp.Request) (mcp.Result, error) {
				fmt.Fprintln(stderr, "does not answer", method)
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
	}
	mcpplugin.Serve(server)
	if os.Getenv(envStubborn) != "" {
		<-time.After(life)
	}
}

func misbehave() error {
	if err := leave("plugin"); err != nil {
		return err
	}
	if path := os.Getenv(envEarly); path != "" {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, stream := range []*os.File{stdout, stderr} {
			if _, err := stream.Write(content); err != nil {
				return err
			}
		}
	}
	if status := os.Getenv(envExit); status != "" {
		code, err := strconv.Atoi(status)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "[ERROR] the fault plugin exits with status %d\n", code)
		os.Exit(code)
	}
	if words := os.Getenv(envGrandchild); words != "" {
		if err := startGrandchild(words); err != nil {
			return err
		}
	}
	if script := os.Getenv(envShell); script != "" {
		if err := startShell(script); err != nil {
			return err
		}
	}
	if os.Getenv(envListen) != "" {
		if err := listen(); err != nil {
			return err
		}
	}
	if delay := os.Getenv(envDelay); delay != "" {
		d, err := time.ParseDuration(delay)
		if err != nil {
			return err
		}
		time.Sleep(d)
	}
	if line := os.Getenv(envHandshake); line != "" {
		return halfHandshake(line)
	}
	if lines := os.Getenv(envFlood); lines != "" {
		n, err := strconv.Atoi(lines)
		if err != nil {
			return err
		}
		go flood(n)
	}
	return nil
}

// listen listens as long as the process lives.
func listen() error {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv(shared.EnvPort))
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	return nil
}

// flood goes on as long as there is somebody to read it.
func flood(lines int) {
	for second := 0; ; second++ {
		for line := range lines {
			if _, err := fmt.Fprintf(stderr, "[INFO] line %d of the flood of second %d\n", line, second); err != nil {
				return
			}
		}
		<-time.After(time.Second)
	}
}

// leave leaves a file that names this process.
func leave(what string) error {
	dir := os.Getenv(envPIDs)
	if dir == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d", what, os.Getpid())), nil, 0o600)
}

// halfHandshake returns only if it cannot be done.
func halfHandshake(line string) error {
	dir := os.Getenv(plugin.EnvUnixSocketDir)
	listener, err := net.Listen("unix", filepath.Join(dir, "mute.sock"))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, os.Expand(line, func(string) string { return dir }))
	if err != nil {
		return err
	}
	var held []net.Conn // or they would be closed as garbage
	for {
		conn, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("after %d connections: %w", len(held), err)
		}
		held = append(held, conn)
	}
}
