//go:build !linux

package usage

import (
	"time"

	"github.com/shirou/gopsutil/v4/process"
)

func of(pid int) (Usage, error) {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return Usage{}, err
	}
	times, err := p.Times()
	if err != nil {
		return Usage{}, err
	}
	memory, err := p.MemoryInfo()
	if err != nil {
		return Usage{}, err
	}
	return Usage{
		CPU:    time.Duration((times.User + times.System) * float64(time.Second)),
		Memory: int64(memory.RSS),
	}, nil
}
