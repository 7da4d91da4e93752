package peer

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestBothEndsAreThisProcess(t *testing.T) {
	dir, err := os.MkdirTemp("", "peer-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for name, conn := range map[string]net.Conn{"client": client, "server": server} {
		if pid, err := PID(conn.(*net.UnixConn)); err != nil || pid != os.Getpid() {
			t.Errorf("the %s has pid %d (%v) at the other end, want %d", name, pid, err, os.Getpid())
		}
		if uid, err := UID(conn.(*net.UnixConn)); err != nil || uid != os.Geteuid() {
			t.Errorf("the %s has uid %d (%v) at the other end, want %d", name, uid, err, os.Geteuid())
		}
	}
}
