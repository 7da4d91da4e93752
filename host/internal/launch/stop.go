package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/plughost/plughost/probes"
	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// termGrace is what a plugin gets at the least between SIGTERM and SIGKILL,
// even if draining took its whole grace.
const termGrace = 500 * time.Millisecond

// maxSearches is how often it is looked whether anything is left, if the search
// itself did not come to its end: on a machine that is very busy it may take
// longer than probes.Settle. What is known to survive is no reason to search
// again.
const maxSearches = 6

// Stop ends the whole instance: it has the plugin finish what it has begun,
// within grace, then ends its process, its group and every process that still
// carries its marker. When it returns nil nothing is left and the instance is
// out of the registry. If ctx ends the rest is done without grace. After an
// error, such as a *probes.SurvivorsError, it may be called again.
func (i *Instance) Stop(ctx context.Context, grace time.Duration) (probes.Result, error) {
	deadline := time.Now().Add(grace)
	if i.conn != nil { // else it never got ready
		i.drain(ctx, grace)
	}
	return i.end(ctx, max(time.Until(deadline), min(grace, termGrace)))
}

// LetGo has the plugin see its host gone, without that being so: it closes the
// lifeline. The instance is still to be stopped.
func (i *Instance) LetGo() error {
	if i.runner.lifeline == nil {
		return errors.New("the instance has no lifeline")
	}
	return i.runner.lifeline.Close()
}

// drain is a request: whatever comes of it, the signals follow.
func (i *Instance) drain(ctx context.Context, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	go func() {
		select {
		case <-i.Exited():
			cancel()
		case <-ctx.Done():
		}
	}()
	_, _ = plughostv1.NewPluginClient(i.conn).Drain(ctx, &plughostv1.DrainRequest{})
}

// end is Stop without the drain; also for an instance that never got ready.
func (i *Instance) end(ctx context.Context, grace time.Duration) (probes.Result, error) {
	i.ending.Lock()
	defer i.ending.Unlock()
	if i.ended {
		return i.endResult, nil
	}
	result, err := i.endProcesses(ctx, grace)
	if err != nil {
		return result, err
	}
	if result, err = i.endGroup(result); err != nil {
		return result, err
	}
	if err := i.cleanUp(); err != nil {
		return result, err
	}
	i.ended, i.endResult = true, result
	i.launcher.live.Delete(i.ID())
	return result, nil
}

func (i *Instance) endProcesses(ctx context.Context, grace time.Duration) (probes.Result, error) {
	process := i.runner.held()
	if process == nil {
		// Never spawned, or spawned and lost hold of: the marker tells.
		return probes.Sweep(ctx, probes.Filter{Instance: i.ID()}, grace)
	}
	record := probes.Record{
		PID:      i.record.PID,
		Birth:    i.record.Birth,
		Identity: i.record.Identity,
		Group:    true,
	}
	for attempt := 1; ; attempt++ {
		result, err := probes.StopHeld(ctx, process, record, grace)
		if err == nil {
			return result, nil
		}
		var alive *probes.SurvivorsError
		if errors.As(err, &alive) || attempt == maxSearches {
			return result, fmt.Errorf("cannot end instance %s: %w", i.ID(), err)
		}
		grace = 0 // it is over
	}
}

// cleanUp frees what belonged to the instance, once nothing of it lives. Should
// it fail, the process is still held: the next stop goes through all of it again.
func (i *Instance) cleanUp() error {
	process := i.runner.held()
	if process != nil {
		<-i.runner.drained // bounded: its pipes are closed after its exit
		_ = i.runner.lifeline.Close()
		// The process is gone, so this only closes the connection and ends
		// go-plugin's goroutines.
		i.client.Kill()
	}
	err := errors.Join(
		i.removeGroup(),
		os.RemoveAll(i.dir),
		i.launcher.Registry.Remove(i.ID()),
	)
	if err == nil && process != nil {
		_ = process.Close()
	}
	return err
}
