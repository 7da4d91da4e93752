package launch

import (
	"sync"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/plughost/plughost/probes"
)

// attributes puts the child into a console process group of its own, which a
// Ctrl-C on the host's console does not reach and a stop can send a Ctrl-Break
// to. Without a console it gets no window.
//
// A child that is to die with the host is in the host's job from its first
// moment on. Any other one is created outside of it.
func attributes(death hostDeath) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
	joined := death != deathSpares && hostJob.join() == nil
	if !joined && hostJob.joined() {
		attr.CreationFlags |= windows.CREATE_BREAKAWAY_FROM_JOB
	}
	return attr
}

// hostJob is the job of all that the host creates.
var hostJob job

// job is a job object that the host itself is in, and with it every child from
// its creation, so that none can have a child of its own outside before it is
// put there, as it could if it were put there after its start. The host has
// the job's only handle and never closes it: however the host ends, the system
// closes it then, and ends all who are left in the job.
//
// It costs that all which the host starts by other ways is in the job, too, and
// that the host can never leave it.
type job struct {
	mu     sync.Mutex
	object *probes.JobObject // nil until the host is in it
}

// join puts the host into its job, unless it is there. If this fails the next
// launch tries again.
func (j *job) join() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.object != nil {
		return nil
	}
	object, err := probes.NewJobObject(true)
	if err != nil {
		return err
	}
	if err := object.AssignSelf(); err != nil {
		_ = object.Close()
		return err
	}
	j.object = object
	return nil
}

func (j *job) joined() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.object != nil
}
