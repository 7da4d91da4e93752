package launch

import "github.com/plughost/plughost/host/internal/account"

// spawn starts the runner's command. Of what confines a service Windows has
// only the checksum here; the configuration says so of the rest.
func (r *runner) spawn() error { return r.spawner.Start(r.cmd) }

// give is of Unix.
func give(*account.Account, ...string) error { return nil }
