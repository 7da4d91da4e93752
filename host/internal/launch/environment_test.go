package launch_test

import (
	"slices"
	"testing"

	"github.com/plughost/plughost/host/internal/launch"
)

func TestEnvironment(t *testing.T) {
	hostEnv := []string{"PATH=/bin", "HOME=/root", "SECRET=hunter2", "EMPTY=", "PLUGIN_CLIENT_CERT=x", "PLUGHOST_HOST=1", "=odd", "odd"}
	tests := []struct {
		name    string
		inherit []string
		set     map[string]string
		want    []string
	}{
		{"nothing is passed on by itself", nil, nil, []string{}},
		{"what is listed is", []string{"PATH", "EMPTY"}, nil, []string{"EMPTY=", "PATH=/bin"}},
		{"what the host lacks is not", []string{"ABSENT"}, nil, []string{}},
		{"the configuration wins", []string{"HOME"}, map[string]string{"HOME": "/srv", "A": "b=c"}, []string{"A=b=c", "HOME=/srv"}},
		{"no name is a prefix", []string{"HOM", "HOMER"}, nil, []string{}},
		{
			"plughost's and go-plugin's never are",
			[]string{"PLUGIN_CLIENT_CERT", "PLUGHOST_HOST"},
			map[string]string{"PLUGIN_X": "1", "PLUGHOST_PORT": "1"},
			[]string{},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := launch.Environment(hostEnv, test.inherit, test.set); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
