package reclaim

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
)

// PortHeldError says that the port of a service is taken. Nothing is done to
// the holder.
type PortHeldError struct {
	Port    int
	Holders []Holder
}

// Holder is a process that listens on a port.
type Holder struct {
	probes.Listener
	// Service is the service of this installation that the holder runs for,
	// or empty for a stranger.
	Service string
}

func (e *PortHeldError) Error() string {
	holders := make([]string, len(e.Holders))
	for i, h := range e.Holders {
		holders[i] = h.String()
	}
	return fmt.Sprintf("port %d is held by %s: it was left alone; stop it or give the service another port",
		e.Port, strings.Join(holders, " and by "))
}

// String names the holder for people.
func (h Holder) String() string {
	if h.PID == 0 {
		return fmt.Sprintf("a process that this user may not see, listening on %s", h.Addr)
	}
	owner := h.User
	if owner == "" {
		owner = fmt.Sprintf("uid %d", h.UID)
	}
	text := fmt.Sprintf("pid %d (%q, of user %s, listening on %s)", h.PID, h.Command, owner, h.Addr)
	if h.Service != "" {
		return text + ", which runs for service " + h.Service
	}
	return text + ", a stranger to this installation"
}

// FreePort makes sure that nobody listens on the port. A holder that is proven
// to be a leftover of this installation is ended; for any other the error is a
// *PortHeldError.
func (r *Reclaimer) FreePort(ctx context.Context, port int) error {
	// The second look is for what a leftover of ours hid.
	var held *PortHeldError
	for range 2 {
		listeners, err := probes.Listeners(ctx, port)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil // the plugin's own listen decides
		}
		if err != nil {
			return fmt.Errorf("cannot look who holds port %d: %w", port, err)
		}
		if len(listeners) == 0 {
			return nil
		}
		held = &PortHeldError{Port: port}
		for _, l := range listeners {
			holder := Holder{Listener: l}
			ended, err := r.endLeftover(ctx, &holder)
			if err != nil {
				return err
			}
			if !ended {
				held.Holders = append(held.Holders, holder)
			}
		}
		if len(held.Holders) > 0 {
			return held
		}
	}
	return fmt.Errorf("port %d is taken again as soon as it is free", port)
}

// endLeftover ends the instance behind a holder if it is the installation's
// and no longer in use. It reports whether the holder is gone.
func (r *Reclaimer) endLeftover(ctx context.Context, h *Holder) (bool, error) {
	if h.PID == 0 {
		return false, nil
	}
	id, err := r.identify(h.PID)
	if errors.Is(err, probes.ErrGone) {
		return true, nil
	}
	if err != nil || id.Instance == "" {
		return false, nil // not proven ours
	}
	h.Service = string(id.Kind) + "." + id.Service
	if r.Live(id.Instance) {
		return false, nil
	}
	r.Log.Warn("port is held by a leftover of this installation: ending it", "port", h.Addr.Port(), "pid", h.PID, "service", h.Service)
	result, err := probes.Sweep(ctx, probes.Filter{Instance: id.Instance}, r.Grace(id.Kind, id.Service))
	if err != nil {
		return false, fmt.Errorf("cannot end the leftover that holds port %d: %w", h.Addr.Port(), err)
	}
	if r.Ended != nil {
		r.Ended(Stopped{Identity: id, Result: result})
	}
	return true, nil
}

// identify returns the marker of a process proven to be the installation's,
// and the zero identity for any other.
func (r *Reclaimer) identify(pid int) (marker.Identity, error) {
	process, err := probes.Open(pid)
	if err != nil {
		return marker.Identity{}, err
	}
	defer process.Close()
	proof := process.Identify(probes.Expect{Identity: marker.Identity{Installation: r.Installation}})
	if proof.Verdict != probes.Ours {
		return marker.Identity{}, nil
	}
	return proof.Identity, nil
}
