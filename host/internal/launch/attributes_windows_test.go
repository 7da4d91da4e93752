package launch_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/probes"
)

func init() {
	// A host with one child that dies with it and one that does not, each of
	// which has a child of its own. It writes the pids.
	plugins["family"] = func() {
		for _, die := range []bool{true, false} {
			spawn("middle", die)
		}
		time.Sleep(time.Minute)
	}
	plugins["middle"] = func() {
		fmt.Println(os.Getpid())
		cmd := again("sleeper")
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		_ = cmd.Wait()
	}
	plugins["sleeper"] = func() {
		fmt.Println(os.Getpid())
		time.Sleep(time.Minute)
	}
}

func again(plugin string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), envPlugin+"="+plugin)
	return cmd
}

// spawn starts a child and passes on the two lines that it writes.
func spawn(plugin string, dieWithHost bool) {
	cmd := again(plugin)
	cmd.SysProcAttr = launch.Attributes(dieWithHost)
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	reader := bufio.NewReader(out)
	for range 2 {
		line, err := reader.ReadString('\n')
		if err != nil {
			panic(err)
		}
		fmt.Print(line)
	}
}

func TestJobEndsWithTheHost(t *testing.T) {
	host := again("family")
	stdout, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = host.Process.Kill()
		_ = host.Wait()
	}()
	reader := bufio.NewReader(stdout)
	var family []*probes.Process
	for range 4 {
		line, err := reader.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		p, err := probes.Open(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		family = append(family, p)
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, p := range family[:2] {
		if err := p.Wait(timeout(t)); err != nil {
			t.Errorf("process %d outlived the host: %v", p.PID(), err)
		}
	}
	kept := family[2]
	if kept.Exited() || family[3].Exited() {
		t.Error("what was to outlive the host did not")
	}
	if err := kept.SignalGroup(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	for _, p := range family[2:] {
		if err := p.Wait(timeout(t)); err != nil {
			t.Errorf("process %d: %v", p.PID(), err)
		}
	}
}
