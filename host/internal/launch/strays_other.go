//go:build !linux

package launch

import "context"

// AdoptStrays does nothing: these systems give what children leave behind to
// init, which reaps it.
func (s *Spawner) AdoptStrays(context.Context) error { return nil }
