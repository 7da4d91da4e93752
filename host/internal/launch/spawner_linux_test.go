package launch_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/probes"
)

const manyChildren = 20

// systemProcesses are what the test binary can be instead on this system.
var systemProcesses = map[string]func(){
	// A host that spawns children from threads that end.
	"host": spawnFromManyThreads,
	// A child of it, which lives until it is killed.
	"sleep": func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString(0)
		select {}
	},
}

// spawnFromManyThreads is a host whose goroutines each end the thread that
// they asked for a child from. It writes the children's pids.
func spawnFromManyThreads() {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	// One pipe, held open for as long as this process lives.
	stdin, _, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	spawner := &launch.Spawner{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range manyChildren {
		wg.Go(func() {
			// A goroutine that ends with its thread locked takes it along.
			runtime.LockOSThread()
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), envPlugin+"=sleep")
			cmd.Stdin = stdin
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := spawner.Start(cmd); err != nil {
				panic(err)
			}
			mu.Lock()
			defer mu.Unlock()
			fmt.Println(cmd.Process.Pid)
		})
	}
	wg.Wait()
	fmt.Println("all")
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
}

func TestDeathSignalFollowsTheHostNotAThread(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command(self)
	host.Env = append(os.Environ(), envPlugin+"=host")
	stdin, err := host.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
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
	var children []*probes.Process
	scanner := bufio.NewScanner(stdout)
	for scanner.Scan() && scanner.Text() != "all" {
		pid, err := strconv.Atoi(strings.TrimSpace(scanner.Text()))
		if err != nil {
			t.Fatal(err)
		}
		child, err := probes.Open(pid)
		if err != nil {
			t.Fatalf("child %d died with the thread that asked for it: %v", pid, err)
		}
		defer child.Close()
		children = append(children, child)
	}
	if len(children) != manyChildren {
		t.Fatalf("%d children were started, want %d", len(children), manyChildren)
	}
	for _, child := range children {
		if child.Exited() {
			t.Errorf("child %d died with the thread that asked for it", child.PID())
		}
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		if err := child.Wait(timeout(t)); err != nil {
			t.Errorf("child %d outlived the host: %v", child.PID(), err)
		}
	}
}
