// Package usage says what processes take of the machine, for people to look
// at.
package usage

import "time"

// Usage is what a process takes, or several together.
type Usage struct {
	// CPU is the processors' time that was used so far.
	CPU time.Duration
	// Memory is in bytes: what is resident, or charged to a control group.
	Memory int64
	// Processes is how many there are.
	Processes int
}

// Of adds up what processes take. Those that are gone take nothing.
func Of(pids []int) Usage {
	var sum Usage
	for _, pid := range pids {
		one, err := of(pid)
		if err != nil {
			continue
		}
		sum.CPU += one.CPU
		sum.Memory += one.Memory
		sum.Processes++
	}
	return sum
}
