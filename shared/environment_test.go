package shared

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plughost/plughost/shared/marker"
)

func TestReadEnvironment(t *testing.T) {
	tests := []struct {
		name    string
		vars    map[string]string
		want    environment
		wantErr string
	}{
		{"all is set", map[string]string{EnvPort: "8101", EnvLifeline: "3", EnvOrphanTTL: "1m30s", EnvInstanceDir: "/i"}, environment{8101, 3, 90 * time.Second, "/i"}, ""},
		{"no port and no lifeline", map[string]string{EnvInstanceDir: "/i"}, environment{0, 0, 0, "/i"}, ""},
		{"the greatest port", map[string]string{EnvPort: "65535", EnvInstanceDir: "/i"}, environment{65535, 0, 0, "/i"}, ""},
		{"nothing is set", nil, environment{}, "PLUGHOST_INSTANCE_DIR is not set"},
		{"port 0", map[string]string{EnvPort: "0", EnvInstanceDir: "/i"}, environment{}, `PLUGHOST_PORT is "0", not a number from 1 to 65535`},
		{"a port too great", map[string]string{EnvPort: "65536", EnvInstanceDir: "/i"}, environment{}, "PLUGHOST_PORT"},
		{"a port that is a word", map[string]string{EnvPort: "http", EnvInstanceDir: "/i"}, environment{}, "PLUGHOST_PORT"},
		{"a negative lifeline", map[string]string{EnvLifeline: "-1", EnvInstanceDir: "/i"}, environment{}, "PLUGHOST_LIFELINE"},
		{"standard input as lifeline", map[string]string{EnvLifeline: "0", EnvInstanceDir: "/i"}, environment{}, "PLUGHOST_LIFELINE"},
		{"no time to live", map[string]string{EnvOrphanTTL: "0s", EnvInstanceDir: "/i"}, environment{}, "PLUGHOST_ORPHAN_TTL"},
		{"a time to live without a unit", map[string]string{EnvOrphanTTL: "60", EnvInstanceDir: "/i"}, environment{}, "PLUGHOST_ORPHAN_TTL"},
		{"a lifeline with a space", map[string]string{EnvLifeline: " 3", EnvInstanceDir: "/i"}, environment{}, "PLUGHOST_LIFELINE"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := readEnvironment(func(name string) string { return test.vars[name] })
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if test.wantErr == "" && err != nil || test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
				t.Errorf("error %v, want %q", err, test.wantErr)
			}
		})
	}
}

func TestForgetKeepsTheMarkerAndThePort(t *testing.T) {
	kept := map[string]string{
		marker.Subprocess: "1", marker.MCPService: "clock", marker.Installation: "i", marker.Instance: "n",
		EnvPort: "8101", "PLUGINS": "x", "OTHER": "y",
	}
	gone := map[string]string{
		cookieKey: cookieValue, EnvLifeline: "3", EnvOrphanTTL: "1m", EnvInstanceDir: "/i",
		"PLUGIN_CLIENT_CERT": "c", "PLUGIN_PROTOCOL_VERSIONS": "1", "PLUGIN_EMPTY": "",
	}
	for _, vars := range []map[string]string{kept, gone} {
		for name, value := range vars {
			t.Setenv(name, value)
		}
	}
	if !Hosted() {
		t.Error("a process with the cookie is not hosted")
	}
	forget()
	if Hosted() {
		t.Error("a process without the cookie is hosted")
	}
	for name, value := range kept {
		if os.Getenv(name) != value {
			t.Errorf("%s was not kept", name)
		}
	}
	for name := range gone {
		if slices.ContainsFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, name+"=") }) {
			t.Errorf("%s is still there", name)
		}
	}
}
