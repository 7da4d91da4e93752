package launch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/plughost/plughost/host/internal/launch"
)

// written is a configuration that fits every plugin that declares a schema.
type written string

func (w written) FitConfig(schema []byte) ([]byte, error) {
	if len(schema) == 0 {
		return nil, errors.New("no configuration is wanted")
	}
	return []byte(w), nil
}

func (w written) ConfigFault(path []string, message string) error {
	return fmt.Errorf("line 7, %s: %s", strings.Join(path, "."), message)
}

func TestAPluginGetsItsConfiguration(t *testing.T) {
	tests := []struct{ name, plugin, config, want string }{
		{"that it takes", "zoned", `{"zone":"UTC"}`, ""},
		{"that it refuses", "zoned", `{"zone":"Asia/Tokyo"}`, "line 7, zone: there is only UTC"},
		{"that it does not want", "good", `{}`, "no configuration is wanted"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLauncher(t)
			out := &lines{}
			s := spec(t, test.plugin, out)
			s.Configuration = written(test.config)
			instance, err := l.Launch(timeout(t), s)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := instance.Stop(timeout(t), 0); err != nil {
					t.Error(err)
				}
			} else {
				var permanent *launch.ConfigError
				if !errors.As(err, &permanent) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want one for good that says %q", err, test.want)
				}
			}
			checkNothingLeft(t, l)
		})
	}
}

func TestOtherSettingsAreAnotherInstance(t *testing.T) {
	s := spec(t, "zoned", &lines{})
	before := s.Digest()
	s.Settings = []byte(`{"zone":"UTC"}`)
	if s.Digest() == before {
		t.Error("the digest does not cover the settings")
	}
}
