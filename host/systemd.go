package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/events"
	"github.com/plughost/plughost/host/internal/supervise"
)

// systemd tells the service manager that started the host, if one did that
// wants to know, how the host is: the protocol of sd_notify(3).
type systemd struct{ log hclog.Logger }

// tellTimeout is how long a service manager has to take what it is told. One that
// does not read, such as a container's, must not hold up the host.
const tellTimeout = time.Second

// tell sends assignments, such as READY=1.
func (s systemd) tell(assignments ...string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	if err := notify(socket, strings.Join(assignments, "\n")); err != nil {
		s.log.Warn("the service manager cannot be told how the host is", "error", err)
	}
}

func notify(socket, text string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(tellTimeout))
	_, err = conn.Write([]byte(text))
	return err
}

func (s systemd) reloading() {
	s.tell(daemon.SdNotifyReloading, strings.TrimSpace(daemon.SdNotifyMonotonicUsec()), "STATUS=Reading the configuration again")
}

// reloaded says that a reload is over, and may have failed.
func (s systemd) reloaded(err error, services []supervise.Status) {
	status := summary(services)
	if err != nil {
		status += "; the last reload failed: " + firstLine(err.Error())
	}
	s.tell(daemon.SdNotifyReady, "STATUS="+status)
}

func (s systemd) stopping() { s.tell(daemon.SdNotifyStopping, "STATUS=Stopping the services") }

// follow says how the services are whenever that changes, and that the host is
// ready when its start is over, until ctx ends or the hub is closed.
func (s systemd) follow(ctx context.Context, hub *events.Hub, services func() []supervise.Status) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	subscription := hub.Subscribe("")
	defer subscription.Close()
	ready, told := false, ""
	for {
		var news []string
		now := services()
		if !ready && settled(now) {
			ready = true
			news = append(news, daemon.SdNotifyReady)
		}
		if text := summary(now); text != told {
			told = text
			news = append(news, "STATUS="+text)
		}
		if len(news) > 0 {
			s.tell(news...)
		}
		if _, err := subscription.Next(ctx); err != nil {
			return
		}
		for more := true; more; {
			_, more = subscription.Ready()
		}
	}
}

// watchdog shows the service manager, if it wants that, that the host works: it
// has alive return each time before it says so. It ends with ctx.
func (s systemd) watchdog(ctx context.Context, alive func()) {
	patience, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("the service manager's watchdog is not served", "error", err)
	}
	if patience == 0 {
		return
	}
	tick := time.NewTicker(patience / 3)
	defer tick.Stop()
	for ctx.Err() == nil {
		alive()
		s.tell(daemon.SdNotifyWatchdog)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// settled reports whether the start of a host is over: every service has become
// ready, or has failed and is left for a later try. So a single service that is
// broken keeps nobody from being told that the host works.
func settled(services []supervise.Status) bool {
	return !slices.ContainsFunc(services, func(s supervise.Status) bool {
		return s.State == supervise.Starting || s.State == supervise.Stopping
	})
}

// summary says in a line how services are.
func summary(services []supervise.Status) string {
	ready := 0
	var others []string
	for _, s := range services {
		if s.State == supervise.Ready {
			ready++
		} else {
			others = append(others, fmt.Sprintf("%s is %s", s.Service, s.State))
		}
	}
	text := fmt.Sprintf("%d of %s ready", ready, count(len(services), "service"))
	if len(others) == 0 {
		return text
	}
	const most = 5
	if len(others) > most {
		others = append(others[:most], "and so on")
	}
	return text + ": " + strings.Join(others, ", ")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
