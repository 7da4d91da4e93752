package probes

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// wait returns nil once the process has exited, or the cause of ctx's end.
//
// The process object and an event that ctx's end sets are waited for together.
// That blocks a thread, as os.Process.Wait does too; a stop waits for one
// process at a time.
func (h *object) wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ended, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return os.NewSyscallError("CreateEvent", err)
	}
	defer release(ended)
	set := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = windows.SetEvent(ended)
		close(set)
	})
	defer func() {
		if !stop() {
			<-set // before the event is closed
		}
	}()
	event, err := windows.WaitForMultipleObjects([]windows.Handle{h.h, ended}, false, windows.INFINITE)
	switch {
	case err != nil:
		return fmt.Errorf("WaitForMultipleObjects: %w", typed(err))
	case event == windows.WAIT_OBJECT_0:
		return nil
	case event == windows.WAIT_OBJECT_0+1:
		return context.Cause(ctx)
	}
	return fmt.Errorf("WaitForMultipleObjects: unexpected event %#x", event)
}
