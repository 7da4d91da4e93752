// Command faultplugin is an MCP plugin that does what plugins should not, as
// its environment tells it. Only the tests run it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/mcpplugin"
)

// What the environment can ask for.
const (
	// envExit: write a line to standard error and exit with this status.
	envExit = "FAULT_EXIT"
	// envGrandchild: start a process that holds the plugin's output and lives
	// on: "plain", or "stubborn" for one that ignores SIGTERM.
	envGrandchild = "FAULT_GRANDCHILD"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "grandchild" {
		grandchild(os.Args[2])
		return
	}
	if status := os.Getenv(envExit); status != "" {
		code, err := strconv.Atoi(status)
		if err != nil {
			code = 1
		}
		fmt.Fprintf(os.Stderr, "[ERROR] the fault plugin exits with status %d\n", code)
		os.Exit(code)
	}
	if kind := os.Getenv(envGrandchild); kind != "" {
		if err := startGrandchild(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "fault", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "pid", Description: "The plugin's pid"}, pid)
	mcpplugin.Serve(server)
}

type pidOutput struct {
	PID int `json:"pid"`
}

func pid(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, pidOutput, error) {
	return nil, pidOutput{PID: os.Getpid()}, nil
}

func startGrandchild(kind string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "grandchild", kind)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Start()
}

// grandchild lives until it is killed.
func grandchild(kind string) {
	if kind == "stubborn" {
		signal.Ignore(syscall.SIGTERM)
	}
	<-make(chan struct{})
}
