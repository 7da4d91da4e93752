package registry

import (
	"errors"
	"sync"

	"go.etcd.io/bbolt"
)

// writes are the changes that are waiting for the disk.
type writes struct {
	turn    sync.Mutex // of who writes; taken before mu
	mu      sync.Mutex
	waiting []*write
}

// write is one change. Its error is set when it is on disk, or is not.
type write struct {
	change func(instances *bbolt.Bucket) error
	done   bool
	err    error
}

// write makes a change, and returns when it is on disk. Changes that come while
// another is being written go to disk together, by the first that has its turn;
// one that comes alone waits for nobody. (bbolt's own Batch has each wait for
// others to come.) If that fails it fails for all of them.
func (r *Registry) write(change func(instances *bbolt.Bucket) error) error {
	own := &write{change: change}
	w := &r.writes
	w.mu.Lock()
	w.waiting = append(w.waiting, own)
	w.mu.Unlock()

	w.turn.Lock()
	defer w.turn.Unlock()
	if own.done {
		return own.err
	}
	w.mu.Lock()
	batch := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	err := r.db.Update(func(tx *bbolt.Tx) error {
		var errs []error
		for _, one := range batch {
			errs = append(errs, one.change(tx.Bucket(instanceBucket)))
		}
		return errors.Join(errs...)
	})
	for _, one := range batch {
		one.done, one.err = true, err
	}
	return err
}
