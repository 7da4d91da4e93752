package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
)

// boardTick is how often a board is drawn while nothing happens: its times go
// on.
const boardTick = 100 * time.Millisecond

// output is what a host writes to beside its log.
type output struct {
	// board is the terminal on which the log appears, or nil if it is none.
	board *screen
	// people is for what people are to read.
	people io.Writer
	// log is where the log goes, and onTerminal says that this is a terminal.
	log        io.Writer
	onTerminal bool
	// end has the last of all that be written.
	end func()
}

// newOutput makes the output of a host.
func newOutput() output {
	stdout, stderr := newSink(os.Stdout), newSink(os.Stderr)
	out := output{people: stdout, log: stderr, onTerminal: isTerminal(os.Stderr), end: func() {
		stdout.close()
		stderr.close()
	}}
	if !out.onTerminal || os.Getenv("TERM") == "dumb" {
		return out
	}
	out.board = &screen{out: stderr, terminal: os.Stderr}
	out.log = out.board
	if isTerminal(os.Stdout) {
		out.people = out.board // else they would write over each other
	}
	return out
}

// terminalGone reports whether the host ran on a terminal that was closed since.
func (o output) terminalGone() bool { return o.onTerminal && !isTerminal(os.Stderr) }

// say says what a signal does: on a terminal to the person who gave it, and in
// the log otherwise.
func (o output) say(log hclog.Logger, level hclog.Level, message string, sig os.Signal) {
	if o.board == nil {
		log.Log(level, message, "signal", sig)
		return
	}
	if sig == os.Interrupt {
		message = strings.ReplaceAll(message, "signal again", "press Ctrl-C again")
	}
	fmt.Fprintf(o.board, "plughost: %s\n", message)
}

// showServices shows on the terminal how services are until done says so, ctx
// ends or the host does. What was shown last stays.
func (h *host) showServices(ctx context.Context, done func([]supervise.Status) bool) {
	if h.output.board == nil {
		return
	}
	subscription := h.news.events.Subscribe("")
	defer subscription.Close()
	defer h.output.board.leave()
	began := time.Now()
	for {
		services := h.manager.Statuses()
		if services == nil {
			return
		}
		h.output.board.show(h.board(services, began, time.Now()))
		if done(services) {
			return
		}
		tick, cancel := context.WithTimeout(ctx, boardTick)
		_, err := subscription.Next(tick)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return
		}
		for more := err == nil; more; {
			_, more = subscription.Ready()
		}
	}
}

// quiet has the log, as long as a board shows the same, tell only of what goes
// wrong, unless more than is usual was asked for.
func (h *host) quiet() (end func()) {
	if h.output.board == nil || h.log.GetLevel() != hclog.Info {
		return func() {}
	}
	h.log.SetLevel(hclog.Warn)
	return func() { h.log.SetLevel(hclog.LevelFromString(h.current().Host.LogLevel)) }
}

// board is a line for each service: how it is, since when, and what is to be
// said of that.
func (h *host) board(services []supervise.Status, began, now time.Time) string {
	width := 0
	for _, s := range services {
		width = max(width, len(s.Service.String()))
	}
	var b strings.Builder
	for _, s := range services {
		state := fmt.Sprintf("%-9s", s.State)
		if sgr := stateColor(s.State); sgr != 0 && os.Getenv("NO_COLOR") == "" {
			state = paint(sgr, state)
		}
		end := now
		if s.State == supervise.Ready || s.State == supervise.Stopped {
			end = s.Since
		}
		fmt.Fprintf(&b, "  %-*s  %s  %5.1fs  %5s  %s\n", width, s.Service, state, max(0, end.Sub(began)).Seconds(), number(s.Port), h.remark(s, now))
	}
	return b.String()
}

// remark is what is to be said of a service: where it is, what it waits for, or
// what is wrong.
func (h *host) remark(s supervise.Status, now time.Time) string {
	switch s.State {
	case supervise.Ready:
		return h.endpoint(s.Service)
	case supervise.Backoff:
		return fmt.Sprintf("next try in %s: %s", tenths(max(0, s.NextTry.Sub(now))), oneLine(s.LastError))
	case supervise.Failed:
		return oneLine(s.LastError)
	default:
		return oneLine(s.Cause)
	}
}

// endpoint is the URL of a service.
func (h *host) endpoint(ref config.Ref) string {
	if ref.Kind == config.KindAgent {
		return h.base + "/a2a/" + ref.Name
	}
	return h.base + "/mcp/" + ref.Name
}

// addresses are where clients find all services of a kind, in one line.
func (h *host) addresses() string {
	return fmt.Sprintf("MCP at %[1]s/mcp, A2A at %[1]s/a2a/", h.base)
}

// atRest reports whether nothing of services runs.
func atRest(services []supervise.Status) bool {
	for _, s := range services {
		if s.State != supervise.Stopped && s.State != supervise.Failed {
			return false
		}
	}
	return true
}
