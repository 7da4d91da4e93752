//go:build unix

package account

import (
	"errors"
	"os"
	"os/user"
	"reflect"
	"slices"
	"strconv"
	"testing"
)

func TestLookup(t *testing.T) {
	self, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	a, err := Lookup(self.Username, "")
	if err != nil {
		t.Fatal(err)
	}
	if int(a.UID) != os.Getuid() || a.Home != self.HomeDir || a.Name != self.Username {
		t.Errorf("got %+v, want %+v", a, self)
	}
	if !slices.Contains(a.Groups, a.GID) {
		t.Errorf("the primary group %d is not among %v", a.GID, a.Groups)
	}
	byNumber, err := Lookup(self.Uid, "")
	if err != nil || !reflect.DeepEqual(a, byNumber) {
		t.Errorf("by number it is %+v (%v), want %+v", byNumber, err, a)
	}
	other, err := Lookup(self.Username, "54321")
	if err != nil || other.GID != 54321 || !slices.Equal(other.Groups, a.Groups) {
		t.Errorf("with another group it is %+v (%v)", other, err)
	}
	want := []string{"HOME=" + a.Home, "USER=" + a.Name, "LOGNAME=" + a.Name}
	if got := a.Environ(); !slices.Equal(got, want) {
		t.Errorf("its variables are %q, want %q", got, want)
	}
}

func TestLookupOfWhatIsNotThere(t *testing.T) {
	const unused = "54321"
	if _, err := user.LookupId(unused); err == nil {
		t.Skip("there is a user " + unused)
	}
	a, err := Lookup(unused, "54322")
	if want := (&Account{Name: unused, Home: "/", UID: 54321, GID: 54322}); err != nil || !reflect.DeepEqual(a, want) {
		t.Errorf("a bare number is %+v (%v), want %+v", a, err, want)
	}
	if _, err := Lookup(unused, ""); !errors.Is(err, ErrNoGroup) {
		t.Errorf("a bare number without a group: %v, want %v", err, ErrNoGroup)
	}
	tests := []struct{ name, group, what, missing string }{
		{"no-such-user-7f3", "", "user", "no-such-user-7f3"},
		{"", "", "user", ""},
		{"-1", "", "user", "-1"},
		{strconv.Itoa(1<<32 - 1), "1", "user", strconv.Itoa(1<<32 - 1)}, // "none" to the system
		{strconv.Itoa(1 << 32), "1", "user", strconv.Itoa(1 << 32)},
		{unused, "no-such-group-7f3", "group", "no-such-group-7f3"},
		{unused, strconv.Itoa(1<<32 - 1), "group", strconv.Itoa(1<<32 - 1)},
	}
	for _, test := range tests {
		_, err := Lookup(test.name, test.group)
		var missing *NotFoundError
		if !errors.As(err, &missing) || missing.What != test.what || missing.Name != test.missing {
			t.Errorf("user %q, group %q: %v, want that there is no %s %q", test.name, test.group, err, test.what, test.missing)
		}
	}
}
