package reclaim

import (
	"fmt"
	"slices"

	"github.com/plughost/plughost/host/internal/registry"
)

// reclaimGroups ends what is left in control groups of instances after all that
// could be identified was ended: processes that gave up all that marked them.
// recorded are the instances that were recorded before. Whose instance still is,
// or is live, is left alone.
func (r *Reclaimer) reclaimGroups(c *collector, recorded []registry.Record) error {
	if r.Groups == nil {
		return nil
	}
	remaining, err := r.Registry.All()
	if err != nil {
		return fmt.Errorf("the control groups of ended instances stay there: %w", err)
	}
	var paths []string
	for _, record := range recorded {
		if record.Cgroup != "" {
			paths = append(paths, record.Cgroup)
		}
	}
	keep := func(instance string) bool {
		return r.Live(instance) ||
			slices.ContainsFunc(remaining, func(r registry.Record) bool { return r.Identity.Instance == instance })
	}
	c.report.Groups = r.Groups.Reclaim(paths, keep)
	for _, left := range c.report.Groups {
		if left.Err != nil {
			c.failed(fmt.Errorf("the control group of instance %s is still there: %w", left.Instance, left.Err))
		}
	}
	return nil
}
