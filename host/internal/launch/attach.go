package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// ParseReattach reads what shared.EnvReattach holds: by the names of services,
// the plugins that somebody started by hand for them.
func ParseReattach(text string) (map[string]shared.Reattach, error) {
	if text == "" {
		return nil, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	var plugins map[string]shared.Reattach
	if err := decoder.Decode(&plugins); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w: set it to what the plugin printed", shared.EnvReattach, err)
	}
	for name, at := range plugins {
		if at.PID <= 0 || !filepath.IsAbs(at.Address) {
			return nil, fmt.Errorf("cannot read %s: %s has no pid or no socket: set it to what the plugin printed", shared.EnvReattach, name)
		}
	}
	return plugins, nil
}

// Attached is a plugin that a service uses and that somebody else has started,
// under a debugger say. It is neither recorded nor ever signalled.
type Attached struct {
	id       string
	process  *probes.Process
	conn     *grpc.ClientConn
	describe *plughostv1.DescribeResponse
	exited   chan struct{}
	letGo    context.CancelFunc
}

// Attach connects to a plugin that somebody has started for spec's service, and
// configures it unless an earlier host has.
func Attach(ctx context.Context, at shared.Reattach, spec Spec) (*Attached, error) {
	process, err := probes.Open(at.PID)
	if err != nil {
		return nil, fmt.Errorf("the plugin that %s names is not there: %w: start it, and set the variable to what it prints", shared.EnvReattach, err)
	}
	conn, err := grpc.NewClient("unix:"+at.Address,
		append(shared.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return nil, errors.Join(err, process.Close())
	}
	a := &Attached{id: uuid.NewString(), process: process, conn: conn, exited: make(chan struct{})}
	if err := a.introduce(ctx, spec); err != nil {
		return nil, errors.Join(err, conn.Close(), process.Close())
	}
	waiting, cancel := context.WithCancel(context.Background())
	a.letGo = cancel
	go func() {
		if process.Wait(waiting) == nil {
			close(a.exited)
		}
	}()
	return a, nil
}

// introduce asks the plugin what it is, and configures it.
func (a *Attached) introduce(ctx context.Context, spec Spec) (err error) {
	a.describe, err = plughostv1.NewPluginClient(a.conn).Describe(ctx, &plughostv1.DescribeRequest{})
	if err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	if got := kindOf(a.describe.GetKind()); got != spec.Kind {
		return &KindError{Got: got, Want: spec.Kind, Service: spec.Name}
	}
	err = configure(ctx, a.conn, a.describe.GetConfigSchema(), spec.Configuration)
	if status.Code(err) == codes.FailedPrecondition {
		return nil // it was configured before
	}
	return err
}

// ID is an id that only this use of the plugin has.
func (a *Attached) ID() string { return a.id }

// PID is the plugin's process.
func (a *Attached) PID() int { return a.process.PID() }

// Conn is the connection to the plugin. It is closed by Stop.
func (a *Attached) Conn() *grpc.ClientConn { return a.conn }

// Describe is what the plugin says of itself.
func (a *Attached) Describe() *plughostv1.DescribeResponse { return a.describe }

// Exited is closed when the plugin's process has ended.
func (a *Attached) Exited() <-chan struct{} { return a.exited }

// ExitError says that how it ended is not known.
func (a *Attached) ExitError() error {
	return errors.New("the plugin that was attached to has ended; the host did not start it")
}

// Health asks nothing: a plugin at a breakpoint does not answer.
func (a *Attached) Health(context.Context) error { return nil }

// Stop lets the plugin go, which goes on for the next host.
func (a *Attached) Stop(context.Context, time.Duration) (probes.Result, error) {
	a.letGo()
	return probes.Result{Outcome: probes.OutcomeNotOurs}, errors.Join(a.conn.Close(), a.process.Close())
}
