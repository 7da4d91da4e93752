package registry

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/plughost/plughost/probes"
	"github.com/plughost/plughost/shared/marker"
)

// helperEnv has the test binary be the process that writes until it is killed.
const helperEnv = "REGISTRY_TEST_WRITE_TO"

func TestMain(m *testing.M) {
	if path := os.Getenv(helperEnv); path != "" {
		if err := writeForEver(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "registry.db") }

// mustOpen opens a registry that is sound or new.
func mustOpen(t *testing.T, path string) *Registry {
	t.Helper()
	r, movedTo, why, err := Open(path)
	if err != nil || why != nil || movedTo != "" {
		t.Fatalf("Open: moved to %q because of %v, error %v", movedTo, why, err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func newRecord(t *testing.T) Record {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Error(err)
	}
	return Record{
		Identity: marker.Identity{
			Kind:         marker.KindMCP,
			Service:      "clock",
			Installation: "4e1c0f2e-7d0c-4b1e-9a5f-0d6a3f1c2b3a",
			Instance:     id.String(),
		},
		Path:     "/opt/bin/clock",
		Port:     8101,
		Intended: time.Now().UTC(),
	}
}

func put(t *testing.T, r *Registry, records ...Record) {
	t.Helper()
	for _, record := range records {
		if err := r.Put(record); err != nil {
			t.Fatal(err)
		}
	}
}

func wantRecords(t *testing.T, r *Registry, want ...Record) {
	t.Helper()
	got, err := r.All()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Errorf("the registry holds %d records, want %d", len(got), len(want))
	} else if len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("the registry holds\n%+v\nwant\n%+v", got, want)
	}
}

func TestWhatIsPutIsThereAfterTheNextOpen(t *testing.T) {
	path := newPath(t)
	r := mustOpen(t, path)
	wantRecords(t, r)
	first, second, third := newRecord(t), newRecord(t), newRecord(t)
	put(t, r, third, first, second) // All goes by the instance

	// After the spawn it has a process.
	second.PID = os.Getpid()
	second.Birth = probes.Birth{PID: os.Getpid()}
	put(t, r, second)
	wantRecords(t, r, first, second, third)
	if err := r.Remove(first.Identity.Instance); err != nil {
		t.Fatal(err)
	}
	wantRecords(t, r, second, third)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	wantRecords(t, mustOpen(t, path), second, third)
}

func TestABirthRecordSurvives(t *testing.T) {
	self, err := probes.Open(os.Getpid())
	if err != nil {
		t.Skip("this system has no birth records: ", err)
	}
	defer self.Close()
	birth, err := self.Birth()
	if err != nil {
		t.Fatal(err)
	}
	path := newPath(t)
	r := mustOpen(t, path)
	record := newRecord(t)
	record.PID, record.Birth = birth.PID, birth
	put(t, r, record)
	_ = r.Close()
	all, err := mustOpen(t, path).All()
	if err != nil || len(all) != 1 || !all[0].Birth.Same(birth) || all[0].Birth != birth {
		t.Errorf("got %+v (%v), want the birth record %+v", all, err, birth)
	}
}

func TestAHostThatEndsBetweenIntentAndSpawnLeavesTheIntent(t *testing.T) {
	path := newPath(t)
	r := mustOpen(t, path)
	intent := newRecord(t)
	put(t, r, intent)
	_ = r.Close()
	r = mustOpen(t, path)
	wantRecords(t, r, intent)
	if all, _ := r.All(); all[0].PID != 0 || !all[0].Birth.IsZero() {
		t.Errorf("the intent has a process: %+v", all[0])
	}
}

func TestTheInstanceIsTheKey(t *testing.T) {
	r := mustOpen(t, newPath(t))
	if err := r.Put(Record{}); err == nil || !strings.Contains(err.Error(), "cannot record instance") {
		t.Errorf("a record without an instance: %v", err)
	}
	if err := r.Remove("that is not there"); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
	wantRecords(t, r)
}

func TestConcurrentLaunches(t *testing.T) {
	path := newPath(t)
	r := mustOpen(t, path)
	kept := make([]Record, 40)
	var launches sync.WaitGroup
	for i := range kept {
		kept[i] = newRecord(t)
		gone := newRecord(t)
		launches.Go(func() {
			if err := errors.Join(r.Put(kept[i]), r.Put(gone)); err != nil {
				t.Error(err)
			}
			kept[i].PID = 1000 + i
			if _, err := r.All(); err != nil {
				t.Error(err)
			}
			if err := errors.Join(r.Put(kept[i]), r.Remove(gone.Identity.Instance)); err != nil {
				t.Error(err)
			}
		})
	}
	launches.Wait()
	wantRecords(t, r, kept...)
	_ = r.Close()
	wantRecords(t, mustOpen(t, path), kept...)
}

func TestErrorsAfterClose(t *testing.T) {
	r := mustOpen(t, newPath(t))
	_ = r.Close()
	if _, err := r.All(); err == nil {
		t.Error("All of a closed registry has no error")
	}
	if err := r.Put(newRecord(t)); err == nil {
		t.Error("Put of a closed registry has no error")
	}
	if err := r.Remove("x"); err == nil {
		t.Error("Remove of a closed registry has no error")
	}
}

// filled writes a registry of so many records.
func filled(t *testing.T, path string, n int) {
	t.Helper()
	r := mustOpen(t, path)
	together(n, func(int) {
		if err := r.Put(newRecord(t)); err != nil {
			t.Error(err)
		}
	})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// together does something n times side by side, so that it shares writes.
func together(n int, do func(int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// update changes the database itself.
func update(t *testing.T, path string, change func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(change), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestADamagedRegistryIsMovedAside(t *testing.T) {
	write := func(content string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(share int64) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			filled(t, path, 100)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			// Whole pages, as a file system leaves them.
			if err := os.Truncate(path, info.Size()*share/100/4096*4096); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := []struct {
		name   string
		damage func(t *testing.T, path string)
		why    string
	}{
		{"text", write(strings.Repeat("this is no database\n", 1000)), "invalid database"},
		{"a few bytes", write("x"), ""},
		{"zeros", write(string(make([]byte, 32<<10))), "invalid database"},
		{"cut to a tenth", cut(10), ""},
		{"cut to a half", cut(50), ""},
		{"another version", func(t *testing.T, path string) {
			filled(t, path, 1)
			update(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(versionKey, []byte("2")) })
		}, `the registry has version "2", and this host reads "1"`},
		{"no version", func(t *testing.T, path string) {
			filled(t, path, 1)
			update(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Delete(versionKey) })
		}, `the registry has version ""`},
		{"no instances", func(t *testing.T, path string) {
			update(t, path, func(tx *bbolt.Tx) error {
				meta, err := tx.CreateBucket(metaBucket)
				return errors.Join(err, meta.Put(versionKey, []byte(version)))
			})
		}, "no place for instances"},
		{"a record that is none", func(t *testing.T, path string) {
			filled(t, path, 1)
			update(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(instanceBucket).Put([]byte("id"), []byte("{")) })
		}, `the record of instance "id" makes no sense`},
		{"a directory", func(t *testing.T, path string) {
			if err := os.MkdirAll(filepath.Join(path, "in it"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "is a directory"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := newPath(t)
			test.damage(t, path)
			before, _ := os.ReadFile(path)

			r, movedTo, why, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if why == nil || !strings.Contains(why.Error(), test.why) {
				t.Errorf("the reason is %v, want %q", why, test.why)
			}
			if !strings.HasPrefix(movedTo, path+".damaged-") {
				t.Errorf("it was moved to %q", movedTo)
			}
			if after, _ := os.ReadFile(movedTo); !slices.Equal(before, after) {
				t.Error("what was moved aside is not what was there")
			}

			record := newRecord(t)
			put(t, r, record)
			_ = r.Close()
			wantRecords(t, mustOpen(t, path), record)
		})
	}
}

func TestReadIsForWhenNoHostRuns(t *testing.T) {
	path := newPath(t)
	if records, err := Read(path); err != nil || len(records) > 0 {
		t.Errorf("without a registry: %v, %v", records, err)
	}
	r := mustOpen(t, path)
	want := newRecord(t)
	put(t, r, want)
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "cannot read the registry "+path) {
		t.Errorf("while a host has it: %v", err)
	}
	_ = r.Close()
	if records, err := Read(path); err != nil || !reflect.DeepEqual(records, []Record{want}) {
		t.Errorf("got %+v, %v", records, err)
	}
}

func TestReadOfADamagedRegistryIsAnErrorAndChangesNothing(t *testing.T) {
	path := newPath(t)
	filled(t, path, 60)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for size := 4096; size < len(content)/2; size += 4096 {
		if err := os.WriteFile(path, content[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if records, err := Read(path); err == nil {
			t.Errorf("cut to %d bytes, it has %d records", size, len(records))
		}
		if after, err := os.ReadFile(path); err != nil || !slices.Equal(after, content[:size]) {
			t.Errorf("cut to %d bytes, it was changed (%v)", size, err)
		}
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	update(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(versionKey, []byte("2")) })
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), `has version "2"`) {
		t.Errorf("of another version: %v", err)
	}
}

func TestAnEmptyFileIsANewRegistry(t *testing.T) {
	path := newPath(t)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, path)
	record := newRecord(t)
	put(t, r, record)
	wantRecords(t, r, record)
}

func TestEveryCutAndEveryFlipIsSurvived(t *testing.T) {
	whole := newPath(t)
	filled(t, whole, 60)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	used := content[:min(len(content), 64<<10)]
	survive := func(t *testing.T, what string, damaged []byte) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "registry.db")
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		r, _, why, err := Open(path)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		const n = 5 // enough to reuse pages
		records := make([]Record, n)
		together(n, func(i int) {
			records[i] = newRecord(t)
			if err := r.Put(records[i]); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
		all, err := r.All()
		if err != nil || len(all) < n || why != nil && len(all) != n {
			t.Errorf("%s: %d records (%v), reason %v", what, len(all), err, why)
		}
		together(n, func(i int) {
			if err := r.Remove(records[i].Identity.Instance); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
		if err := r.Close(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for size := 0; size <= len(used); size += 4096 {
		survive(t, fmt.Sprintf("cut to %d bytes", size), content[:size])
	}
	random := rand.New(rand.NewPCG(1, 2))
	rounds := 40
	if testing.Short() {
		rounds = 20
	}
	for range rounds {
		damaged := slices.Clone(content)
		at := random.IntN(len(used))
		if random.IntN(2) == 0 {
			at = at / 4096 * 4096 // the head of a page
		}
		for i := range 1 + random.IntN(16) {
			if at+i < len(damaged) {
				damaged[at+i] = byte(random.Uint32())
			}
		}
		survive(t, fmt.Sprintf("bytes from %d on", at), damaged)
	}
}

func TestARegistryThatIsOnlyNotToBeHadStaysWhereItIs(t *testing.T) {
	t.Run("held by another", func(t *testing.T) {
		path := newPath(t)
		mustOpen(t, path)
		_, movedTo, _, err := Open(path)
		if err == nil || movedTo != "" || !strings.Contains(err.Error(), path) {
			t.Errorf("moved to %q, error %v", movedTo, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	})
	t.Run("not readable", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root reads everything")
		}
		path := newPath(t)
		filled(t, path, 1)
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		_, movedTo, _, err := Open(path)
		if !errors.Is(err, fs.ErrPermission) || movedTo != "" {
			t.Errorf("moved to %q, error %v", movedTo, err)
		}
	})
	t.Run("no directory", func(t *testing.T) {
		_, _, _, err := Open(filepath.Join(t.TempDir(), "not", "there", "registry.db"))
		if !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
}

// writeForEver is the helper: it says each instance that is on disk, and each
// that is no more.
func writeForEver(path string) error {
	r, _, _, err := Open(path)
	if err != nil {
		return err
	}
	for {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		record := Record{Identity: marker.Identity{Instance: id.String()}, Path: strings.Repeat("x", 500)}
		if err := r.Put(record); err != nil {
			return err
		}
		fmt.Println("put", id)
		record.PID = os.Getpid()
		if err := r.Put(record); err != nil {
			return err
		}
		fmt.Println("pid", id)
		if id[15]%2 == 0 {
			if err := r.Remove(id.String()); err != nil {
				return err
			}
			fmt.Println("removed", id)
		}
	}
}

func TestAWriterThatIsKilledLeavesEverythingItSaidWasWritten(t *testing.T) {
	path := newPath(t)
	type known struct{ pid, removed, last bool }
	all := make(map[string]*known)
	for round := range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), helperEnv+"="+path)
		cmd.Stderr = os.Stderr
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stdout)
		last := ""
		for n := 0; lines.Scan(); n++ { // to the end of what it said
			if n == 30+7*round {
				_ = cmd.Process.Kill()
			}
			what, id, _ := strings.Cut(lines.Text(), " ")
			last = id
			switch what {
			case "put":
				all[id] = &known{}
			case "pid":
				all[id].pid = true
			case "removed":
				all[id].removed = true
			}
		}
		_ = cmd.Wait()
		if all[last] == nil {
			t.Fatal("the writer wrote nothing")
		}
		all[last].last = true // what it did after its last word is not known

		r := mustOpen(t, path)
		records, err := r.All()
		if err != nil {
			t.Fatal(err)
		}
		unknown := 0
		found := make(map[string]Record)
		for _, record := range records {
			found[record.Identity.Instance] = record
			if all[record.Identity.Instance] == nil {
				unknown++
				all[record.Identity.Instance] = &known{last: true}
			}
		}
		if unknown > 1 {
			t.Errorf("round %d: %d records of which nobody was told, want at most the one under way", round, unknown)
		}
		for id, k := range all {
			record, ok := found[id]
			switch {
			case !ok && !k.removed && !k.last:
				t.Errorf("round %d: %s was lost", round, id)
			case ok && k.removed:
				t.Errorf("round %d: %s is back", round, id)
			case ok && k.pid && record.PID == 0:
				t.Errorf("round %d: %s has lost its process", round, id)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
