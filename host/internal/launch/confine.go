package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/plughost/plughost/host/internal/account"
	"github.com/plughost/plughost/host/internal/cgroup"
	"github.com/plughost/plughost/probes"
)

// Confinement is what a service is held to. The zero value holds it to nothing.
type Confinement struct {
	// SHA256 is the digest, in hexadecimal, that the executable must have, or
	// empty.
	SHA256 string
	// Account is whom it runs as; nil for whom the host runs as.
	Account *account.Account
	// NoNewPrivs says that no exec may give it privileges that it has not got:
	// neither it itself nor what it starts. Linux only.
	NoNewPrivs bool
	// OpenFiles is how many descriptors each of its processes may have, or 0
	// for what the host itself was started with.
	OpenFiles int
	// Nice is its priority, from -20 to 19, or nil for the host's.
	Nice *int
	// Group limits all its processes together, where there are control groups.
	Group cgroup.Limits
}

// verify takes the executable that the checksum names, or nil without one.
func (s Spec) verify() (*image, error) {
	if s.Confinement.SHA256 == "" {
		return nil, nil
	}
	return openImage(s.Path, s.Confinement.SHA256)
}

// makeDir makes the instance's directory with all that the plugin needs in it,
// and gives it to the account.
func (i *Instance) makeDir(spec Spec) (err error) {
	l, a := i.launcher, spec.Confinement.Account
	if a == nil {
		i.dir, err = l.Installation.MakeInstanceDir(i.ID())
	} else {
		i.dir, err = l.Installation.MakeForeignInstanceDir(i.ID())
	}
	if err != nil {
		return err
	}
	if err := errors.Join(l.Keys.WriteInstanceFiles(i.dir, i.ID()), i.writeFiles(spec.Files)); err != nil {
		return errors.Join(err, os.RemoveAll(i.dir))
	}
	if a == nil {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(i.dir, "*"))
	if err == nil {
		// The directory last: until then nobody else can change what is in it.
		err = give(a, append(files, i.dir)...)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(i.dir))
	}
	return nil
}

func (i *Instance) writeFiles(files map[string][]byte) error {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(i.dir, name), content, 0o600); err != nil {
			return fmt.Errorf("cannot hand the plugin its files: %w", err)
		}
	}
	return nil
}

// makeGroup makes the instance's control group, if there can be one. A limit
// that groups cannot set here is left out; Tree.Missing tells of it.
func (i *Instance) makeGroup(c Confinement) (err error) {
	tree := i.launcher.Groups
	if tree == nil {
		return nil
	}
	i.group, err = tree.New(i.ID(), c.Group)
	switch {
	case err == nil:
		i.record.Cgroup = tree.Path(i.group)
		return nil
	case c.Group.IsZero():
		return nil // a stop can do without it
	}
	return err
}

func (i *Instance) removeGroup() error {
	if i.group == nil {
		return nil
	}
	return i.group.Remove()
}

// endGroup ends what is left in the instance's control group once no process
// is known any more: those that gave up all that marked them.
func (i *Instance) endGroup(result probes.Result) (probes.Result, error) {
	if i.group == nil {
		return result, nil
	}
	pids, err := i.group.Kill()
	if len(pids) > 0 {
		result.Swept, result.How = append(result.Swept, pids...), probes.Killed
	}
	if err != nil {
		result.Outcome = probes.OutcomeFailed
		return result, fmt.Errorf("cannot end instance %s: %w", i.ID(), err)
	}
	if len(pids) > 0 {
		result.Outcome = probes.OutcomeStopped
	}
	return result, nil
}

// explainExit says of an end by a signal that it was for the memory, where the
// kernel tells so.
func (r *runner) explainExit(err error) error {
	if err == nil || r.group == nil || r.confinement.Group.Memory == 0 || !r.group.OutOfMemory() {
		return err
	}
	return fmt.Errorf("%w: its processes used more than limits.memory", err)
}
