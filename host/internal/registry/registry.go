// Package registry keeps on disk what was launched, so that a host that comes
// after a crash knows which processes to look for. An instance is recorded
// before it is spawned, its process after, and it is removed only when nothing
// of it is left.
//
// The registry is a help, not the proof: what a record names is believed only
// if the live process agrees (package probes), and what it misses is found by
// its marker.
package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
)

// version is of the layout below. A registry of another version is not read.
const version = "1"

var (
	metaBucket     = []byte("meta")
	instanceBucket = []byte("instances")
	versionKey     = []byte("version")
)

// Record is what is known of one instance.
type Record struct {
	// Identity is what the instance's processes carry as their marker.
	Identity marker.Identity `json:"identity"`
	// Path is the executable's.
	Path string `json:"path"`
	// Binary is the SHA-256 of its bytes in hexadecimal, or empty if they could
	// not be read.
	Binary string `json:"binary,omitempty"`
	// Cgroup is the path of its control group in the hierarchy, or empty if it
	// has none.
	Cgroup string `json:"cgroup,omitempty"`
	// Port is the service's, or 0.
	Port int `json:"port,omitempty"`
	// Digest is of all that the instance was launched with, as package launch
	// makes it.
	Digest string `json:"digest,omitempty"`
	// Network and Address are where the plugin answers. They are recorded of
	// one that is kept when its host ends, once it is ready.
	Network string `json:"network,omitempty"`
	Address string `json:"address,omitempty"`
	// Intended is when the launch was decided.
	Intended time.Time `json:"intended"`
	// PID is the plugin's process, the leader of its group, or 0 as long as
	// the spawn is not known to have happened.
	PID int `json:"pid,omitempty"`
	// Birth tells that process from any other that ever has its pid.
	Birth probes.Birth `json:"birth"`
}

// Registry is an open registry. Its methods may be called concurrently; each
// that writes returns when the change is on disk.
type Registry struct {
	db     *bbolt.DB
	writes writes
}

// Open opens the registry, or makes it. One that cannot be read is moved
// aside, never deleted, and a new one made: movedTo says where it went, and
// why is what was wrong with it.
func Open(path string) (r *Registry, movedTo string, why, err error) {
	db, why := open(path)
	if why == nil {
		return &Registry{db: db}, "", nil, nil
	}
	if slices.ContainsFunc(passing, func(err error) bool { return errors.Is(why, err) }) {
		return nil, "", nil, fmt.Errorf("cannot open the registry %s: %w", path, why)
	}
	movedTo = fmt.Sprintf("%s.damaged-%s", path, time.Now().UTC().Format("20060102T150405.000000000Z"))
	if err := os.Rename(path, movedTo); err != nil {
		return nil, "", nil, fmt.Errorf("cannot open the registry %s (%w), nor move it aside: %w", path, why, err)
	}
	if db, err = open(path); err != nil {
		return nil, "", nil, fmt.Errorf("cannot make a new registry %s: %w", path, err)
	}
	return &Registry{db: db}, movedTo, why, nil
}

// passing are reasons for which a registry cannot be opened that say nothing
// against its content. It stays where it is.
var passing = []error{
	berrors.ErrTimeout, fs.ErrPermission,
	syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
}

func open(path string) (db *bbolt.DB, err error) {
	// bbolt panics on pages that make no sense, and faults on those that lie
	// beyond the end of a file that was cut.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			// Its locks may be held for good, so it cannot be closed.
			db, err = nil, fmt.Errorf("the database is damaged: %v", r)
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		// The state directory is locked, so nobody holds this one for long.
		Timeout: time.Second,
	})
	if err != nil {
		return nil, err
	}
	if err := prepare(db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// prepare lays out a new database, or checks one that is there. It writes only
// to a new one.
func prepare(db *bbolt.DB) error {
	isNew := false
	err := db.View(func(tx *bbolt.Tx) error {
		if isNew = tx.Bucket(metaBucket) == nil; isNew {
			return nil
		}
		return check(tx)
	})
	if err != nil || !isNew {
		return err
	}
	return db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		if _, err := tx.CreateBucketIfNotExists(instanceBucket); err != nil {
			return err
		}
		return meta.Put(versionKey, []byte(version))
	})
}

// check looks at everything, as bbolt does not when it opens a database: what
// is wrong would panic with some later write.
func check(tx *bbolt.Tx) error {
	if found := tx.Bucket(metaBucket).Get(versionKey); string(found) != version {
		return fmt.Errorf("the registry has version %q, and this host reads %q", found, version)
	}
	if tx.Bucket(instanceBucket) == nil {
		return errors.New("the registry has no place for instances")
	}
	if _, err := allRecords(tx); err != nil {
		return err
	}
	info, err := os.Stat(tx.DB().Path())
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return fmt.Errorf("the database is cut off at %d of %d bytes", info.Size(), tx.Size())
	}
	var errs []error
	for err := range tx.Check() {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func allRecords(tx *bbolt.Tx) ([]Record, error) {
	var all []Record
	err := tx.Bucket(instanceBucket).ForEach(func(key, value []byte) error {
		var record Record
		if err := json.Unmarshal(value, &record); err != nil {
			return fmt.Errorf("the record of instance %q makes no sense: %w", key, err)
		}
		all = append(all, record)
		return nil
	})
	return all, err
}

// Close closes the registry.
func (r *Registry) Close() error { return r.db.Close() }

// All returns every record, in the order in which the instances were intended:
// their ids are UUIDv7.
func (r *Registry) All() ([]Record, error) {
	var all []Record
	err := r.db.View(func(tx *bbolt.Tx) error {
		var err error
		all, err = allRecords(tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the registry: %w", err)
	}
	return all, nil
}

// Put writes the record of an instance: before its spawn without a process,
// after it with one.
func (r *Registry) Put(record Record) error {
	value, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("cannot record instance %s: %w", record.Identity.Instance, err)
	}
	err = r.write(func(instances *bbolt.Bucket) error {
		return instances.Put([]byte(record.Identity.Instance), value)
	})
	if err != nil {
		return fmt.Errorf("cannot record instance %s: %w", record.Identity.Instance, err)
	}
	return nil
}

// Remove removes the record of an instance of which nothing is left.
func (r *Registry) Remove(instance string) error {
	err := r.write(func(instances *bbolt.Bucket) error {
		return instances.Delete([]byte(instance))
	})
	if err != nil {
		return fmt.Errorf("cannot remove the record of instance %s: %w", instance, err)
	}
	return nil
}
