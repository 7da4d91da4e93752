package launch

import (
	"os"
	"testing"
)

// Both ways to count see what is opened. Other tests of the package run before
// or after it, not beside it.
func TestOpenFilesAreCounted(t *testing.T) {
	const more = 7
	count := func() (open, listed int) {
		t.Helper()
		open, limit, known := openFiles()
		listed, alsoKnown := listedFiles(limit)
		if !known || !alsoKnown || open >= limit {
			t.Fatalf("%d of %d open, known: %v; listed: %v", open, limit, known, alsoKnown)
		}
		return open, listed
	}
	open, listed := count()
	for range more {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
	}
	openNow, listedNow := count()
	if openNow-open != more || listedNow-listed != more {
		t.Errorf("%d more are open: counted %d more, listed %d more", more, openNow-open, listedNow-listed)
	}
	if openNow != listedNow {
		t.Errorf("counted %d, listed %d", openNow, listedNow)
	}
}
