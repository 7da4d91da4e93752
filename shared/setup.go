package shared

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/plughost/plughost/shared/pluginconfig"
)

// setup is what has to happen before a plugin does its work: the host
// configures it, if it declares a configuration.
type setup struct {
	config *pluginconfig.Config // nil if it takes none

	one  sync.Mutex
	done atomic.Bool
}

func newSetup(config *pluginconfig.Config) *setup {
	s := &setup{config: config}
	s.done.Store(config == nil)
	return s
}

// schema is what the host is told of the configuration.
func (s *setup) schema() []byte {
	if s.config == nil {
		return nil
	}
	return s.config.Schema()
}

// configure takes the configuration, once. The plugin reads it without a lock.
func (s *setup) configure(config []byte) ([]*pluginconfig.FieldError, error) {
	if s.config == nil {
		return nil, errors.New("the plugin takes no configuration")
	}
	s.one.Lock()
	defer s.one.Unlock()
	if s.done.Load() {
		return nil, errors.New("the plugin is configured already")
	}
	faults := s.config.Set(config)
	s.done.Store(len(faults) == 0)
	return faults, nil
}

// guard keeps requests on the plugin's port away from it until it is configured.
func (s *setup) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.done.Load() {
			http.Error(w, "the plugin is not configured yet", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ConfigureByHand configures a plugin that no host configures, from the file
// that EnvConfigFile names; without one the defaults hold. The configuration may
// be nil: there is nothing to do then.
func ConfigureByHand(config *pluginconfig.Config) error {
	if config == nil {
		return nil
	}
	content := []byte("{}")
	if path := os.Getenv(EnvConfigFile); path != "" {
		var err error
		if content, err = os.ReadFile(path); err != nil {
			return fmt.Errorf("cannot read the configuration that %s names: %w", EnvConfigFile, err)
		}
	}
	var errs []error
	for _, fault := range config.Set(content) {
		errs = append(errs, fault)
	}
	return errors.Join(errs...)
}
