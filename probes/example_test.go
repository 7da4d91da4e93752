//go:build linux || darwin || freebsd

package probes_test

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
)

// started starts a process of an installation that says when it has begun to run,
// and so carries its marker. To reap it waits for its end.
func started(id marker.Identity) (pid int, reap func()) {
	cmd := exec.Command("/bin/sh", "-c", "echo ready; read line")
	cmd.Env = append(os.Environ(), id.Environ()...)
	if _, err := cmd.StdinPipe(); err != nil {
		log.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		log.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		log.Fatal(err)
	}
	return cmd.Process.Pid, func() { _ = cmd.Wait() }
}

// What a process is: hold it, then ask.
func ExampleProcess_Identify() {
	id := marker.Identity{Kind: marker.KindMCP, Service: "clock", Installation: "example-identify", Instance: "one"}
	pid, reap := started(id)
	p, err := probes.Open(pid)
	if err != nil {
		log.Fatal(err)
	}
	proof := p.Identify(probes.Expect{Identity: id})
	fmt.Println(proof.Verdict, proof.Identity.Service)

	other := id
	other.Instance = "two"
	fmt.Println(p.Identify(probes.Expect{Identity: other}).Verdict)
	p.Close()

	if _, err := probes.Sweep(context.Background(), probes.Filter{Installation: id.Installation}, time.Second); err != nil {
		log.Fatal(err)
	}
	reap()
	// Output:
	// ours clock
	// not ours
}

// A record of what was started is enough to end it later, and nothing else: if
// the pid is another process's by then, that one is left alone.
func ExampleStop() {
	id := marker.Identity{Kind: marker.KindMCP, Service: "clock", Installation: "example-stop", Instance: "one"}
	pid, reap := started(id)
	p, err := probes.Open(pid)
	if err != nil {
		log.Fatal(err)
	}
	birth, err := p.Birth()
	if err != nil {
		log.Fatal(err)
	}
	p.Close()
	record := probes.Record{PID: pid, Birth: birth, Identity: id}

	for range 2 {
		result, err := probes.Stop(context.Background(), record, 5*time.Second)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Outcome, "-", result.How)
		reap() // until its parent has done that the pid is still the process's own
	}
	// Output:
	// stopped - exited
	// not running - already exited
}

// Who listens on a port.
func ExampleListeners() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	holders, err := probes.Listeners(context.Background(), listener.Addr().(*net.TCPAddr).Port)
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range holders {
		fmt.Println(h.PID == os.Getpid())
	}
	listener.Close()
	// Output: true
}
