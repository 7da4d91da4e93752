package launch

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/plughost/plughost/shared"
)

// coreProtocol is the version of go-plugin's own handshake.
const coreProtocol = 1

// VersionError says that a plugin speaks another version of the plugin protocol
// than this host.
type VersionError struct {
	// Plugin and Host are the versions.
	Plugin, Host int
	// Core says that they are those of go-plugin's handshake, which plughost's
	// protocol builds on.
	Core bool
}

func (e *VersionError) Error() string {
	what := "the plughost plugin protocol"
	if e.Core {
		what = "go-plugin's handshake"
	}
	advice := "update plughost, or build the plugin with an SDK that speaks version " + strconv.Itoa(e.Host)
	if e.Plugin < e.Host {
		advice = "build the plugin again with a newer SDK, or take a plughost that speaks version " + strconv.Itoa(e.Plugin)
	}
	return fmt.Sprintf("the plugin speaks version %d of %s, and this host version %d: %s", e.Plugin, what, e.Host, advice)
}

// Permanent reports that a retry would not help.
func (e *VersionError) Permanent() bool { return true }

// ErrNoHandshake says that what was started gave no sign that it is a plughost
// plugin.
var ErrNoHandshake = errors.New("without go-plugin's handshake on its standard output. If it is no plughost plugin, but an MCP server " +
	"that speaks on standard input and output, host it with exec in place of command")

// ErrForeignPlugin is a go-plugin plugin of another program, which does not know
// plughost's magic cookie.
var ErrForeignPlugin = errors.New("it is a go-plugin plugin of another program, which only that program can run")

// foreignWords are what go-plugin writes when the cookie is another's.
const foreignWords = "This binary is a plugin."

// handshake is what the plugin's first line says, as far as it concerns us.
type handshake struct {
	seen      bool
	core, app int
}

// readHandshake reads a line that looksLikeHandshake.
func readHandshake(line []byte) handshake {
	fields := bytes.SplitN(bytes.TrimSpace(line), []byte("|"), 3)
	core, _ := strconv.Atoi(string(fields[0])) // they are numbers
	app, _ := strconv.Atoi(string(fields[1]))
	return handshake{seen: true, core: core, app: app}
}

// err says what of the versions does not match, if anything.
func (h handshake) err() error {
	switch {
	case !h.seen:
		return nil
	case h.core != coreProtocol:
		return &VersionError{Plugin: h.core, Host: coreProtocol, Core: true}
	case h.app != shared.ProtocolVersion:
		return &VersionError{Plugin: h.app, Host: shared.ProtocolVersion}
	}
	return nil
}
