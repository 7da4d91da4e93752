package main

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/host/internal/trial"
)

// schemasDir is where, in the state directory, it is kept what plugins declare
// for their configuration.
const schemasDir = "schemas"

// askedAtOnce bounds the plugins that are launched at once to be asked.
const askedAtOnce = 4

// pluginChecker checks configurations against what the plugins declare.
type pluginChecker struct {
	known   trial.Schemas
	spawner *launch.Spawner
	// asks says that plugins may be launched at all.
	asks bool
	// askUnknown says that a plugin whose schema is not known is launched to be
	// asked for it. One that is known is asked in any case before a
	// configuration is refused for it.
	askUnknown bool
}

// learner is a service whose plugin's schema is remembered when it is told.
type learner struct {
	config.Service
	spec  launch.Spec
	known trial.Schemas
}

func (l *learner) FitConfig(schema []byte) ([]byte, error) {
	_ = l.known.Put(l.spec, schema) // else it is asked when it matters
	return l.Service.FitConfig(schema)
}

func newPluginChecker(stateDir string, spawner *launch.Spawner, binaries *launch.Binaries) *pluginChecker {
	return &pluginChecker{
		known:   trial.Schemas{Dir: filepath.Join(stateDir, schemasDir), Binaries: binaries},
		spawner: spawner,
		asks:    true,
	}
}

// check returns what was found while a configuration was read, and what is wrong
// with the config blocks of its services.
func (c *pluginChecker) check(ctx context.Context, conf *config.Config) *config.Diagnostics {
	schemas := make(map[config.Ref][]byte)
	specs := make(map[config.Ref]launch.Spec)
	var ask []config.Service
	for _, service := range conf.Services {
		spec, err := specOf(service)
		if err != nil {
			continue // its start says why
		}
		if isBridged(service) {
			schemas[service.Ref()] = nil // the bridge takes no configuration
			continue
		}
		specs[service.Ref()] = spec
		schema, known := c.known.Get(spec)
		if known {
			schemas[service.Ref()] = schema
			if _, err := service.FitConfig(schema); err == nil {
				continue
			}
		}
		if c.asks && (known || c.askUnknown && service.Config != nil) {
			ask = append(ask, service)
		}
	}
	failed := make(map[config.Ref]error)
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, askedAtOnce)
	for _, service := range ask {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			spec := specs[service.Ref()]
			schema, err := trial.ConfigSchema(ctx, c.spawner, spec)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[service.Ref()] = err
				return
			}
			schemas[service.Ref()] = schema
			_ = c.known.Put(spec, schema) // else it is asked again
		})
	}
	wg.Wait()
	return conf.CheckPlugins(schemas, failed)
}
