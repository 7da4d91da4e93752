package launch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/plughost/plughost/host/internal/launch"
)

func TestRedactedErrors(t *testing.T) {
	hide := func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }
	inner := fmt.Errorf("the plugin says: hunter2 is wrong: %w", fs.ErrPermission)
	for name, test := range map[string]struct {
		err    error
		redact func(string) string
		want   string
	}{
		"a secret":                   {inner, hide, "the plugin says: *** is wrong: permission denied"},
		"nothing is secret":          {inner, nil, inner.Error()},
		"a secret that is not in it": {fs.ErrPermission, hide, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			got := launch.Redacted(test.err, test.redact)
			if got.Error() != test.want || !errors.Is(got, fs.ErrPermission) {
				t.Errorf("%q, permission denied: %v", got, errors.Is(got, fs.ErrPermission))
			}
		})
	}
	if err := launch.Redacted(nil, hide); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// What a plugin says of its health is shown, and it knows its secrets.
func TestHealthIsRedacted(t *testing.T) {
	l := newLauncher(t)
	s := spec(t, "sick", &lines{})
	s.Redact = func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }
	instance, err := l.Launch(timeout(t), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := instance.Health(timeout(t)); err == nil || !strings.Contains(err.Error(), "the key *** has expired") {
		t.Errorf("its health is: %v", err)
	}
	if _, err := instance.Stop(timeout(t), 0); err != nil {
		t.Error(err)
	}
}

// So it is with one that outlived the host which started it.
func TestHealthOfWhatIsAdoptedIsRedacted(t *testing.T) {
	l := newLauncher(t)
	s := spec(t, "sick", &lines{})
	s.OrphanTTL = patience
	s.Redact = func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }
	instance, err := l.Launch(timeout(t), s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Adopt(timeout(t), instance.Record(), s); err == nil || !strings.Contains(err.Error(), "the key *** has expired") {
		t.Errorf("it cannot be adopted: %v", err)
	}
	if _, err := instance.Stop(timeout(t), 0); err != nil {
		t.Error(err)
	}
}
