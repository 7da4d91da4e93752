package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
)

// Read returns the records of a registry that no host has open, without
// changing it. One that does not exist has none.
func Read(path string) (records []Record, err error) {
	// As in open.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			records, err = nil, fmt.Errorf("cannot read the registry %s: it is damaged: %v", path, r)
		}
	}()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return nil, fmt.Errorf("cannot read the registry %s: %w", path, err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		if tx.Bucket(metaBucket) == nil {
			return nil // it is only just being made
		}
		if err := check(tx); err != nil {
			return err
		}
		all, err := allRecords(tx)
		records = all
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the registry %s: %w", path, err)
	}
	return records, nil
}
