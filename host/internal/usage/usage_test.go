package usage

import (
	"os"
	"testing"
	"time"
)

func TestUsageOfProcesses(t *testing.T) {
	const ballast = 64 << 20
	held := make([]byte, ballast)
	for i := range held {
		held[i] = 1
	}
	before := Of([]int{os.Getpid()})
	if before.Processes != 1 || before.Memory < ballast {
		t.Errorf("this process takes %+v, want more than %d bytes", before, ballast)
	}
	var after Usage
	for after = before; after.CPU == before.CPU; after = Of([]int{os.Getpid()}) {
		// It works until that shows.
	}
	if after.CPU < before.CPU || after.CPU > time.Hour {
		t.Errorf("it used %v, and then %v", before.CPU, after.CPU)
	}
	if both := Of([]int{os.Getpid(), os.Getpid(), -1}); both.Processes != 2 || both.Memory < 2*ballast {
		t.Errorf("twice this process and none take %+v", both)
	}
	held[0] = 2
}
