package main

import (
	"path/filepath"
	"testing"

	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/host/internal/registry"
	"github.com/plughost/plughost/shared/marker"
)

// The record of what an earlier host left, and this one could not end, stays.
// It is an orphan's all the same.
func TestInstancesAreThoseOfThisHost(t *testing.T) {
	reg, _, _, err := registry.Open(filepath.Join(t.TempDir(), "registry.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	if err := reg.Put(registry.Record{Identity: marker.Identity{Kind: marker.KindMCP, Service: "old", Instance: "left"}}); err != nil {
		t.Fatal(err)
	}
	h := &host{registry: reg, launcher: &launch.Launcher{}}
	instances, err := h.Instances()
	if err != nil || len(instances) != 0 {
		t.Errorf("the host has the instances %v (%v), and runs none", instances, err)
	}
}
