//go:build unix

package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/plughost/plughost/host/internal/account"
)

// become has a command run as an account.
func become(a *account.Account, cmd *exec.Cmd) {
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.UID, Gid: a.GID, Groups: a.Groups}
	for _, stream := range []any{cmd.Stdout, cmd.Stderr} {
		if pipe, ok := stream.(*os.File); ok {
			// For those who open /dev/stderr; some systems cannot.
			_ = pipe.Chown(int(a.UID), int(a.GID))
		}
	}
}

// explainAccount says of a refused spawn that it was refused to an account.
func (c Confinement) explainAccount(cmd *exec.Cmd, err error) error {
	switch {
	case c.Account == nil:
		return err
	case errors.Is(err, syscall.EPERM):
		return &ConfigError{fmt.Errorf("the host may not start a service as user %q: only root may: %w", c.Account.Name, err)}
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: user %q must be able to execute it, to enter all directories above it, and to enter the working directory %s",
			err, c.Account.Name, cmd.Dir)
	}
	return err
}

// give makes an account the owner of files, none of which others can have
// changed by then.
func give(a *account.Account, paths ...string) error {
	if a == nil {
		return nil
	}
	for _, path := range paths {
		if err := os.Lchown(path, int(a.UID), int(a.GID)); err != nil {
			return fmt.Errorf("cannot give %s to user %q: %w", path, a.Name, err)
		}
	}
	return nil
}
