//go:build windows

package boot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// Windows is the service control manager.
type Windows struct{}

// Current is the service manager of this system.
func Current() (Manager, error) { return Windows{}, nil }

const description = "Runs MCP servers and AI agents. " + madeBy + "."

// Define says how the service is made. There is no file that does.
func (Windows) Define(s Service) (string, error) {
	words := []string{windows.EscapeArg(s.Executable)}
	for _, arg := range s.Args {
		words = append(words, windows.EscapeArg(arg))
	}
	return fmt.Sprintf("service      %s\ndescription  %s\ncommand      %s\nstart        automatic, delayed\nrecovery     restart after 2s\n",
		s.Name, description, strings.Join(words, " ")), nil
}

// Install makes the service, or changes the one that is there, and starts it.
func (m Windows) Install(_ context.Context, s Service) error {
	if s.PerUser {
		return errors.New("services of Windows are the machine's: leave out --user")
	}
	manager, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("the service control manager cannot be reached (an administrator can): %w", err)
	}
	defer manager.Disconnect()
	config := mgr.Config{
		DisplayName:      s.Name,
		Description:      description,
		StartType:        mgr.StartAutomatic,
		DelayedAutoStart: true,
		ServiceStartName: s.Account,
	}
	service, err := manager.OpenService(s.Name)
	if err == nil {
		defer service.Close()
		return errors.New("the service is there already: 'plughost boot uninstall' removes it")
	}
	service, err = manager.CreateService(s.Name, s.Executable, config, s.Args...)
	if err != nil {
		return err
	}
	defer service.Close()
	again := []mgr.RecoveryAction{{Type: mgr.ServiceRestart, Delay: 2 * time.Second}}
	return errors.Join(service.SetRecoveryActions(again, 60), service.SetRecoveryActionsOnNonCrashFailures(true), service.Start())
}

// Uninstall stops the service and deletes it.
func (m Windows) Uninstall(ctx context.Context, s Service) error {
	manager, err := mgr.Connect()
	if err != nil {
		return err
	}
	defer manager.Disconnect()
	service, err := open(manager, s.Name)
	if err != nil {
		return err
	}
	defer service.Close()
	if err := stop(ctx, service); err != nil {
		return err
	}
	return service.Delete()
}

// stop ends the service, and waits until it has.
func stop(ctx context.Context, service *mgr.Service) error {
	status, err := service.Control(svc.Stop)
	if errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
		return nil
	}
	tick := time.NewTicker(200 * time.Millisecond) // there is no event for it
	defer tick.Stop()
	for err == nil && status.State != svc.Stopped {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		status, err = service.Query()
	}
	return err
}

// open opens a service that this package made.
func open(manager *mgr.Mgr, name string) (*mgr.Service, error) {
	service, err := manager.OpenService(name)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return nil, ErrNotInstalled
	}
	if err != nil {
		return nil, err
	}
	config, err := service.Config()
	if err == nil && !strings.Contains(config.Description, madeBy) {
		err = &ForeignError{"the service " + name}
	}
	if err != nil {
		return nil, errors.Join(err, service.Close())
	}
	return service, nil
}

// Status asks the service control manager.
func (m Windows) Status(_ context.Context, s Service) (Status, error) {
	status := Status{Manager: "windows", Name: s.Name}
	manager, err := mgr.Connect()
	if err != nil {
		return status, err
	}
	defer manager.Disconnect()
	service, err := open(manager, s.Name)
	if errors.Is(err, ErrNotInstalled) {
		return status, nil
	}
	if err != nil {
		return status, err
	}
	defer service.Close()
	now, err := service.Query()
	if err != nil {
		return status, err
	}
	status.Installed, status.Enabled = true, true
	status.Running, status.PID = now.State == svc.Running, int(now.ProcessId)
	status.State = stateNames[now.State]
	return status, nil
}

var stateNames = map[svc.State]string{
	svc.Stopped:         "stopped",
	svc.StartPending:    "start pending",
	svc.StopPending:     "stop pending",
	svc.Running:         "running",
	svc.ContinuePending: "continue pending",
	svc.PausePending:    "pause pending",
	svc.Paused:          "paused",
}
