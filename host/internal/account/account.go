// Package account looks up whom a service runs as.
package account

import (
	"errors"
	"fmt"
	"os/user"
	"strconv"
)

// Account is a user of the system, with groups.
type Account struct {
	// Name is the user's, or the number where there is none.
	Name string
	// Home is the user's home directory.
	Home string
	// UID and GID are the user and the primary group.
	UID, GID uint32
	// Groups are the supplementary groups.
	Groups []uint32
}

// NotFoundError says that the system has no such user or group.
type NotFoundError struct {
	// What is "user" or "group".
	What string
	// Name is the name or number that was looked for.
	Name string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("this system has no %s %q", e.What, e.Name)
}

// ErrNoGroup says that a user is a bare number without an account, and that no
// group was named.
var ErrNoGroup = errors.New("a user without an account has no group of its own")

// Lookup finds a user by name or number, with all groups that the user is in.
// If group is not empty, it is the primary group instead of the user's own. A
// number need not have an account if a group is named. Errors are a
// *NotFoundError, ErrNoGroup, or what the system says.
//
// A program that was built without cgo knows only the users of /etc/passwd and
// the groups of /etc/group.
func Lookup(name, group string) (*Account, error) {
	a, hasAccount, err := lookupUser(name)
	if err != nil {
		return nil, err
	}
	if group != "" {
		if a.GID, err = LookupGroup(group); err != nil {
			return nil, err
		}
		return a, nil
	}
	if !hasAccount {
		return nil, ErrNoGroup
	}
	return a, nil
}

// lookupUser also says whether the user has an account.
func lookupUser(name string) (a *Account, has bool, err error) {
	found, err := user.Lookup(name)
	if err != nil {
		if uid, ok := number(name); ok {
			if found, err = user.LookupId(name); err != nil {
				return &Account{Name: name, UID: uid, Home: "/"}, false, nil
			}
		}
	}
	var unknown user.UnknownUserError
	if errors.As(err, &unknown) {
		return nil, false, &NotFoundError{"user", name}
	}
	if err != nil {
		return nil, false, fmt.Errorf("cannot look up user %q: %w", name, err)
	}
	a = &Account{Name: found.Username, Home: found.HomeDir}
	var uidOK, gidOK bool
	a.UID, uidOK = number(found.Uid)
	a.GID, gidOK = number(found.Gid)
	if !uidOK || !gidOK {
		return nil, false, fmt.Errorf("user %q has the ids %q and %q, which are no numbers", name, found.Uid, found.Gid)
	}
	ids, err := found.GroupIds()
	if err != nil {
		return nil, false, fmt.Errorf("cannot look up the groups of user %q: %w", name, err)
	}
	for _, id := range ids {
		if gid, ok := number(id); ok {
			a.Groups = append(a.Groups, gid)
		}
	}
	return a, true, nil
}

// LookupGroup finds the number of a group by its name, or checks one. Errors are a
// *NotFoundError, or what the system says.
func LookupGroup(name string) (uint32, error) {
	found, err := user.LookupGroup(name)
	if err == nil {
		name = found.Gid
	}
	if gid, ok := number(name); ok {
		return gid, nil
	}
	var unknown user.UnknownGroupError
	if errors.As(err, &unknown) {
		return 0, &NotFoundError{"group", name}
	}
	return 0, fmt.Errorf("cannot look up group %q: %w", name, err)
}

// number reads the number of a user or group. The highest one means "none" to
// the system (chown(2), setresuid(2)).
func number(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil && n != 1<<32-1
}

// Environ returns the variables that name the account to its processes.
func (a *Account) Environ() []string {
	return []string{"HOME=" + a.Home, "USER=" + a.Name, "LOGNAME=" + a.Name}
}
