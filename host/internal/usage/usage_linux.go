package usage

import (
	"time"

	"github.com/prometheus/procfs"
)

func of(pid int) (Usage, error) {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, err
	}
	stat, err := process.Stat()
	if err != nil {
		return Usage{}, err
	}
	return Usage{
		CPU:    time.Duration(stat.CPUTime() * float64(time.Second)),
		Memory: int64(stat.ResidentMemory()),
	}, nil
}
