package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"slices"
	"strconv"

	"github.com/plughost/plughost/host/internal/peer"
)

// Nobody is the group of Listen that no further user is in.
const Nobody = -1

// doorkeeper looks at who connects. The socket's mode and its directory's say
// the same; this holds even if somebody changes those.
type doorkeeper struct {
	net.Listener
	group int
}

// stranger is a connection of a user who may not steer the host.
type stranger struct {
	net.Conn
	uid int
}

func (d doorkeeper) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	uid, err := peer.UID(conn.(*net.UnixConn))
	switch {
	case errors.Is(err, errors.ErrUnsupported), err == nil && d.admits(uid):
		return conn, nil
	case err != nil:
		uid = -1
	}
	return stranger{conn, uid}, nil
}

// admits reports whether a user may steer the host: its own, root, or a member
// of the group.
func (d doorkeeper) admits(uid int) bool {
	if uid == os.Geteuid() || uid == 0 {
		return true
	}
	if d.group == Nobody {
		return false
	}
	member, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return false
	}
	groups, err := member.GroupIds()
	return err == nil && slices.Contains(groups, strconv.Itoa(d.group))
}

type strangerKey struct{}

// noteStranger remembers in a connection's context that it is a stranger's.
func noteStranger(ctx context.Context, conn net.Conn) context.Context {
	if s, ok := conn.(stranger); ok {
		return context.WithValue(ctx, strangerKey{}, s.uid)
	}
	return ctx
}

// refuseStranger answers a stranger's request, and reports whether it was one.
func refuseStranger(w http.ResponseWriter, r *http.Request) bool {
	uid, is := r.Context().Value(strangerKey{}).(int)
	if is {
		w.Header().Set("Connection", "close")
		reply(w, http.StatusForbidden, Error{Message: fmt.Sprintf("uid %d may not steer this host, which runs as uid %d: %s", uid, os.Geteuid(), whoMay)})
	}
	return is
}

// whoMay says who can steer a host.
const whoMay = "only its own user, root, and the group that host { control { group } } of its configuration names may"
