package mcpplugin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/mcpplugin"
)

const byHand = "MCPPLUGIN_TEST_BY_HAND"

// The test binary is its own plugin, run by hand.
func TestMain(m *testing.M) {
	if os.Getenv(byHand) == "" {
		os.Exit(m.Run())
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "by-hand"}, nil)
	server.AddTool(&mcp.Tool{Name: "hello", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil
		})
	mcpplugin.Serve(server)
}

func command(t *testing.T) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), byHand+"=1")
	return cmd
}

func TestByHandItServesStandardInputAndOutput(t *testing.T) {
	cmd := command(t)
	client := mcp.NewClient(&mcp.Implementation{Name: "client"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Content[0].(*mcp.TextContent).Text; got != "hello" {
		t.Errorf("result %q", got)
	}
	if err := session.Close(); err != nil {
		t.Errorf("end of input: %v, want exit status 0", err)
	}
}

func TestByHandItEndsWithoutAWord(t *testing.T) {
	ends := map[string]func(*exec.Cmd, io.Closer){
		"at the end of its input": func(_ *exec.Cmd, stdin io.Closer) { _ = stdin.Close() },
	}
	if runtime.GOOS != "windows" {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			ends["by "+signal.String()] = func(cmd *exec.Cmd, _ io.Closer) { _ = cmd.Process.Signal(signal) }
		}
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			cmd := command(t)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// An answer says that it serves.
			if _, err := io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
				t.Fatal(err)
			}
			answer := make([]byte, 1024)
			n, err := stdout.Read(answer)
			if err != nil || !strings.Contains(string(answer[:n]), `"id":1`) {
				t.Fatalf("answer %q, error %v", answer[:n], err)
			}
			end(cmd, stdin)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v, want exit status 0", err)
			}
			if stderr.Len() > 0 {
				t.Errorf("standard error %q", &stderr)
			}
		})
	}
}

func TestByHandItSaysWhatGoesWrong(t *testing.T) {
	cmd := command(t)
	cmd.Stdin = strings.NewReader("this is not MCP\n")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v, want exit status 1", err)
	}
	if !strings.HasPrefix(stderr.String(), "cannot serve MCP on standard input and output: ") {
		t.Errorf("standard error %q", &stderr)
	}
}
