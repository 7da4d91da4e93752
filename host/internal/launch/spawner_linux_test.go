package launch_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
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
	// A plugin that tells what it is held to.
	"confined": tellConfinement,
	// A file system that never answers.
	"mute-file-system": serveNothing,
	// A host that spawns children from threads that end.
	"host": spawnFromManyThreads,
	// A host that adopts what its children leave behind.
	"adopter": adoptStrays,
	// A child of that: it leaves a process behind and exits with status 7.
	"forker": func() {
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		child := exec.Command(self)
		child.Env = append(os.Environ(), envPlugin+"=stray")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		stdout, err := child.StdoutPipe()
		if err != nil {
			panic(err)
		}
		if err := child.Start(); err != nil {
			panic(err)
		}
		// The stray ends when its parent has.
		if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
			panic(err)
		}
		fmt.Println(child.Process.Pid)
		os.Exit(7)
	},
	"stray": func() {
		parent, err := probes.Open(os.Getppid())
		if err != nil {
			panic(err)
		}
		fmt.Println("ready")
		_ = parent.Wait(context.Background())
	},
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

// adoptStrays starts children that each leave a process behind, and writes
// what became of both.
func adoptStrays() {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	spawner := &launch.Spawner{}
	if err := spawner.AdoptStrays(context.Background()); err != nil {
		panic(err)
	}
	var wg sync.WaitGroup
	for range manyChildren {
		wg.Go(func() {
			var stdout bytes.Buffer
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), envPlugin+"=forker")
			cmd.Stdout = &stdout
			if err := spawner.Start(cmd); err != nil {
				panic(err)
			}
			// The status is the child's own, however many strays end beside it.
			waitErr := spawner.Wait(cmd)
			fmt.Printf("%s%v\n", stdout.String(), waitErr)
		})
	}
	wg.Wait()
	fmt.Println("all")
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
}

func TestStraysAreReapedAndExitStatusesKept(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host := exec.Command(self)
	host.Env = append(os.Environ(), envPlugin+"=adopter")
	stdin, err := host.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		_ = host.Wait()
	}()
	statuses := 0
	var strays []int
	scanner := bufio.NewScanner(stdout)
	for scanner.Scan() && scanner.Text() != "all" {
		if pid, err := strconv.Atoi(scanner.Text()); err == nil {
			strays = append(strays, pid)
			continue
		}
		if scanner.Text() != "exit status 7" {
			t.Errorf("a child ended with %q, want exit status 7", scanner.Text())
		}
		statuses++
	}
	if statuses != manyChildren || len(strays) == 0 {
		t.Fatalf("%d exit statuses and %d strays, want %d of each", statuses, len(strays), manyChildren)
	}
	deadline := timeout(t)
	for _, pid := range strays {
		// Reaped by the host, nothing of it is left, not even a zombie.
		for {
			process, err := probes.Open(pid)
			if errors.Is(err, probes.ErrGone) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			waitErr := process.Wait(deadline)
			process.Close()
			if waitErr != nil {
				t.Fatalf("stray %d is still there: %v", pid, waitErr)
			}
			if deadline.Err() != nil {
				t.Fatalf("stray %d was not reaped", pid)
			}
		}
	}
}
