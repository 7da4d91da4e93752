//go:build unix

package config

import (
	"testing"
	"time"
)

func TestServicesThatOutliveTheHostAreRead(t *testing.T) {
	cfg, diags := loadText(t, "services.hcl", written(
		`@ on_host_exit="keep"|}|service "mcp" "b" {| command=["sh"]| on_host_exit="keep"| orphan_ttl="90s"|}`))
	good(t, cfg, diags)
	for name, ttl := range map[string]time.Duration{"mcp.a": time.Hour, "mcp.b": 90 * time.Second} {
		if s := service(t, cfg, name); s.OnHostExit != HostExitKeep || s.OrphanTTL != ttl {
			t.Errorf("%s: on_host_exit is %q, orphan_ttl %v, want %q, %v", name, s.OnHostExit, s.OrphanTTL, HostExitKeep, ttl)
		}
	}
}
