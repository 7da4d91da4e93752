package probes

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestKinfoIsTrusted(t *testing.T) {
	t.Parallel()
	if err := kinfoTrusted(); err != nil {
		t.Fatal(err)
	}
	p, err := readProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_UPTIME, &now); err != nil {
		t.Fatal(err)
	}
	age := time.Duration(now.Nano()) - time.Duration(p.start)*time.Microsecond
	if age < 0 || age > time.Hour {
		t.Errorf("this process is %v old", age)
	}
	if kernel, err := readProcess(0); err == nil && !kernel.kernel {
		t.Errorf("the kernel is %+v", kernel)
	}
}
