//go:build unix && !linux

package launch

// spawn starts the runner's command, confined as far as the system can.
func (r *runner) spawn() error {
	c := r.confinement
	if c.Account != nil {
		become(c.Account, r.cmd)
	}
	path, args := r.cmd.Path, r.cmd.Args
	r.cmd.Path, r.cmd.Args = c.throughShell(path, args)
	err := r.spawner.Start(r.cmd)
	r.cmd.Path, r.cmd.Args = path, args
	if err != nil {
		return c.explainAccount(r.cmd, err)
	}
	return nil
}
