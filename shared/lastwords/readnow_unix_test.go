//go:build unix

package lastwords

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// What a process wrote before it ended is read also if whoever reads comes late,
// and what it left behind holds the pipe, or writes on and on.
func TestWhatIsInAPipeIsReadWhenTheTimeForThatIsOver(t *testing.T) {
	words := strings.Repeat("last words\n", 1000)
	for name, test := range map[string]struct {
		left  int
		close bool
		want  string
		err   error
	}{
		"the pipe is held": {pipeBytes, false, words, os.ErrDeadlineExceeded},
		"nobody has it":    {pipeBytes, true, words, nil},
		"there is more":    {100, false, words[:100], os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			defer w.Close()
			if _, err := io.WriteString(w, words); err != nil {
				t.Fatal(err)
			}
			if test.close {
				_ = w.Close()
			}
			if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
				t.Skip("pipes have no deadlines here: ", err)
			}
			got, err := io.ReadAll(&reader{r, test.left})
			if string(got) != test.want || !errors.Is(err, test.err) {
				t.Errorf("%d bytes are read, and then %v; want %d and %v", len(got), err, len(test.want), test.err)
			}
		})
	}
}
