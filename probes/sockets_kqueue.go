//go:build darwin || freebsd

package probes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// runTool runs one of the system's own programs, in an environment that tells
// it nothing, and returns what it printed. An exit status other than zero is no
// failure: some say so that they found nothing.
func runTool(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin:/usr/sbin:/sbin"}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || !exit.Exited() || complaint.Len() > 0) {
		return "", fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}

// listener returns what is known without a look at the holder.
func (s heldSocket) listener() Listener {
	return Listener{Network: s.network, Addr: s.addr, PID: s.pid, UID: -1}
}

// describeHolders turns what a tool printed into listeners. Since it names a
// holder by its pid, each one is held and described, and then the tool has to
// name it once more.
func describeHolders(found []heldSocket, again func() ([]heldSocket, error)) ([]Listener, error) {
	infos := make(map[int]Info)
	for _, s := range found {
		if _, ok := infos[s.pid]; ok || s.pid == 0 {
			continue
		}
		p, err := hold(s.pid)
		if err != nil {
			continue // gone, or out of sight
		}
		defer p.Close()
		if infos[s.pid], err = p.Info(); err != nil {
			delete(infos, s.pid)
		}
	}
	if len(infos) > 0 {
		var err error
		if found, err = again(); err != nil {
			return nil, err
		}
	}
	var all []Listener
	for _, s := range found {
		l := s.listener()
		info, ok := infos[s.pid]
		switch {
		case s.pid == 0:
			l.Reason = unseen
		case !ok:
			l.Reason = "the holder can't be described"
		default:
			l.describe(info)
		}
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all, nil
}

// unseen is why a listener has no holder.
const unseen = "the holder is not to be seen: it is another user's, or none that is a process"

// describe fills in the holder.
func (l *Listener) describe(info Info) {
	l.PID, l.UID, l.User, l.Command = info.PID, info.UID, info.User, info.Command
	if len(info.Args) > 0 {
		l.Command = strings.Join(info.Args, " ")
	}
}

// hinted returns those of the listeners that hinted processes hold, if every
// socket has one of these, and otherwise all.
func hinted(all []Listener, hints []int) []Listener {
	if len(hints) == 0 {
		return all
	}
	var some []Listener
	for _, l := range all {
		if slices.Contains(hints, l.PID) {
			some = append(some, l)
		}
	}
	for _, l := range all {
		if !slices.ContainsFunc(some, l.sameSocket) {
			return all
		}
	}
	return some
}

// sameSocket compares addresses. Several sockets may listen on one address, but
// they share the port's connections then.
func (l Listener) sameSocket(o Listener) bool { return l.Network == o.Network && l.Addr == o.Addr }
