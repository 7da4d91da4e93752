package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/launch"
	"github.com/plughost/plughost/shared/bridge"
)

// isBridged reports whether a service is no plugin, and runs under the bridge.
func isBridged(service config.Service) bool { return service.Exec != nil || service.URL != "" }

// executable is what is executed for a service.
func executable(service config.Service) (string, error) {
	if !isBridged(service) {
		return service.Path, nil
	}
	return bridgePath(bridgeName(service))
}

// bridgeName is which bridge a service runs under.
func bridgeName(service config.Service) string {
	if service.Kind == config.KindAgent {
		return bridge.AgentName
	}
	return bridge.Name
}

// bridgePath is where a bridge lies: beside the host's own executable.
func bridgePath(name string) (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("cannot tell where the bridge is, beside the host's executable: %w", err)
	}
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(path); err != nil {
		return "", &launch.ConfigError{Err: fmt.Errorf("a service with exec or url runs under the bridge, which belongs beside the host's executable: %w: put it there, as make build does", err)}
	}
	return path, nil
}

// program fills in what is executed for a service.
func program(service config.Service, spec *launch.Spec) error {
	path, err := executable(service)
	if err != nil {
		return err
	}
	spec.Path, spec.Args = path, service.Command
	if !isBridged(service) {
		return nil
	}
	// The name is for people who list processes; the rest may be secret.
	spec.Args = []string{bridgeName(service), service.Name}
	target := bridge.Target{
		Args:        service.Exec,
		Isolated:    service.Sessions == config.SessionsIsolated,
		Sessionless: service.Sessions == config.SessionsNone,
		URL:         service.URL,
		Headers:     service.Headers,
	}
	if service.Exec != nil {
		target.Path = service.Path
	}
	content, err := target.Encode()
	if err != nil {
		return fmt.Errorf("cannot tell the bridge what to serve: %w", err)
	}
	spec.Files = map[string][]byte{bridge.File: content}
	spec.EndsOthers = true
	return nil
}
