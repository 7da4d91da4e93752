//go:build !windows

package main

import (
	"context"

	"github.com/hashicorp/go-hclog"
)

// underServiceManager has nothing to do: service managers send signals here.
func underServiceManager(stop context.Context, _ hclog.Logger) (managed context.Context, ended func()) {
	return stop, func() {}
}
