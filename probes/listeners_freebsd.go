package probes

import (
	"context"
	"fmt"
	"strconv"
)

// listeners asks sockstat(1), of the base system. What it reads itself, sysctl
// net.inet.tcp.pcblist and kern.file, are structures of the kernel that change
// with its versions; it is built with the kernel and always knows them.
func listeners(ctx context.Context, port uint16, hints []int) ([]Listener, error) {
	ask := func() ([]heldSocket, error) {
		out, err := runTool(ctx, "/usr/bin/sockstat", "-46lsw", "-P", "tcp", "-p", strconv.Itoa(int(port)))
		return parseSockstat(out, port), err
	}
	found, err := ask()
	if err == nil {
		var all []Listener
		if all, err = describeHolders(found, ask); err == nil {
			return hinted(all, hints), nil
		}
	}
	return nil, fmt.Errorf("listeners on port %d: %w", port, err)
}
