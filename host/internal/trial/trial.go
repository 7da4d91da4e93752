// Package trial launches a plugin to look at it: outside of any service, in an
// installation of its own that is gone afterwards. Its marker and its record
// are those of any launch, so nothing of it can be taken for a service's.
package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/plughost/plughost/host/internal/installation"
	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/host/internal/registry"
)

// Trial is such an installation.
type Trial struct {
	*launch.Launcher
	inst *installation.Installation
}

// Open makes the installation, in the directory for temporary files. The
// spawner is the process's own, if it has one already.
func Open(spawner *launch.Spawner) (*Trial, error) {
	dir, err := os.MkdirTemp("", "plughost-trial-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory to try a plugin in: %w", err)
	}
	trial, err := open(dir, spawner)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot try a plugin: %w", err), os.RemoveAll(dir))
	}
	return trial, nil
}

func open(dir string, spawner *launch.Spawner) (*Trial, error) {
	inst, err := installation.Open(dir)
	if err != nil {
		return nil, err
	}
	keys, err := inst.Keys()
	if err == nil {
		err = inst.PrepareRunDir(func(string) bool { return false })
	}
	if err != nil {
		return nil, errors.Join(err, inst.Close())
	}
	reg, _, _, err := registry.Open(inst.Registry())
	if err != nil {
		return nil, errors.Join(err, inst.Close())
	}
	return &Trial{
		Launcher: &launch.Launcher{Installation: inst, Keys: keys, Registry: reg, Spawner: spawner},
		inst:     inst,
	}, nil
}

// Close removes the installation. Whatever was launched must have been stopped.
func (t *Trial) Close() error {
	return errors.Join(t.Registry.Close(), t.inst.RemoveRunDir(), t.inst.Close(), os.RemoveAll(t.inst.Dir))
}

// stopGrace is what a plugin gets that was only asked something.
const stopGrace = time.Second

// ConfigSchema launches a plugin and asks it for the JSON Schema of its
// configuration, which is empty if it takes none. The plugin is not configured,
// has no port, and is ended at once.
func ConfigSchema(ctx context.Context, spawner *launch.Spawner, spec launch.Spec) (schema []byte, err error) {
	trial, err := Open(spawner)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, trial.Close()) }()
	spec.Port, spec.OrphanTTL, spec.Settings, spec.Configuration = 0, 0, nil, nil
	instance, err := trial.Launch(ctx, spec)
	if err != nil {
		return nil, err
	}
	schema = instance.Describe().GetConfigSchema()
	_, err = instance.Stop(context.WithoutCancel(ctx), stopGrace)
	return schema, err
}
