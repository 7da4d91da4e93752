package launch

import (
	"context"
	"fmt"
	"os"
	"sync"
)

// reach makes sure of files that a child is started from. Until it has its new
// image the whole process waits for a child: the two share their memory, and
// Go's garbage collector finds one thread that does not stop (vfork(2)). A file
// system that does not answer, such as one on a network that is gone, must not
// be met by the child first.
type reach struct {
	mu      sync.Mutex
	pending map[string]<-chan struct{} // closed when the path has answered
}

// check returns when all paths have answered, whatever they did, or ctx ends.
// However often that happens, no more than one goroutine waits for a path.
func (r *reach) check(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		select {
		case <-r.touch(path):
		case <-ctx.Done():
			return fmt.Errorf("the file system does not answer that %s is on: %w", path, context.Cause(ctx))
		}
	}
	return nil
}

func (r *reach) touch(path string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answered, ok := r.pending[path]; ok {
		return answered
	}
	if r.pending == nil {
		r.pending = make(map[string]<-chan struct{})
	}
	answered := make(chan struct{})
	r.pending[path] = answered
	go func() {
		defer close(answered)
		// A read, since to open a file may take no more than what is cached.
		if file, err := os.Open(path); err == nil {
			_, _ = file.Read(make([]byte, 1))
			_ = file.Close()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.pending, path)
	}()
	return answered
}
