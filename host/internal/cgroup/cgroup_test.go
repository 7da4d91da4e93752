package cgroup

import (
	"reflect"
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	tests := []struct {
		name   string
		limits Limits
		want   map[string]string
	}{
		{"none", Limits{}, map[string]string{}},
		{"memory ends the whole group", Limits{Memory: 512 << 20}, map[string]string{"memory.max": "536870912", "memory.oom.group": "1"}},
		{"half a processor", Limits{CPUs: 0.5}, map[string]string{"cpu.max": "50000 100000"}},
		{"more than one processor", Limits{CPUs: 2.25}, map[string]string{"cpu.max": "225000 100000"}},
		{"less than the kernel can do", Limits{CPUs: 0.0001}, map[string]string{"cpu.max": "1000 100000"}},
		{"processes", Limits{Processes: 64}, map[string]string{"pids.max": "64"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := make(map[string]string)
			for _, s := range test.limits.settings() {
				got[s.file] = s.value
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestOnlyExactNamesAreGroups(t *testing.T) {
	const a, b = "0197f3c8-5c9b-7d1e-8a43-1f2e3d4c5b6a", "1197f3c8-5c9b-7d1e-8a43-1f2e3d4c5b6b"
	if installation, instance, ok := parseName(groupName(a, b)); !ok || installation != a || instance != b {
		t.Errorf("%s is read as %q, %q, %t", groupName(a, b), installation, instance, ok)
	}
	for _, name := range []string{
		"", "plughost", "plughost-host", "plughost." + a, "plughost." + a + ".", "plughost." + a + ".x",
		"plughost." + a + "." + b + ".old", "plughost." + a + "." + b + "x", "x.plughost." + a + "." + b,
		"Plughost." + a + "." + b, "plughost." + strings.ToUpper(a) + "." + b, "plughost." + a + "." + strings.ReplaceAll(b, "-", ""),
		"plughost.{" + a + "}." + b, "plughost.." + b, "plughost." + a + ".00000000-0000-0000-0000-000000000000",
		"plughost." + a + "/" + b, "plughost_" + a + "_" + b,
	} {
		if _, _, ok := parseName(name); ok {
			t.Errorf("%q is taken for the group of an instance", name)
		}
	}
}
