package config

import (
	"os"
	"runtime"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/plughost/plughost/host/internal/account"
)

var controlSchema = Block{
	Type: "control",
	Doc:  "Who may steer the host, with `plughost status`, `stop` and the like, beside the user who runs it and root.",
	Attributes: []Attribute{
		{
			Name: "group", Type: TypeString, DefaultDoc: "nobody", Example: `"operators"`,
			Doc: "name or number of a group whose members may, too. They can do to the services whatever the host can, but read neither its keys nor its files. The host must be in the group, or run as root; the directories above the state directory must let the members pass. Not on Windows",
		},
	},
}

// Control says who may steer the host beside its own user and root.
type Control struct {
	// Group is the name of a group, or empty, and GID its number.
	Group string
	GID   int
}

func (d *decoder) control(block *hcl.Block) Control {
	if block == nil {
		return Control{}
	}
	group := d.str(d.attrs(block, controlSchema), "group", "")
	if !group.Set {
		return Control{}
	}
	if runtime.GOOS == "windows" {
		d.diags.errorf(group.Range, "Not available here", "group: on windows only the user that runs the host can steer it. Remove it.")
		return Control{}
	}
	gid, err := account.LookupGroup(group.V)
	switch {
	case err != nil:
		d.diags.errorf(group.Range, "Group not found", "group: %s.", err)
	case !canGive(int(gid)):
		d.diags.errorf(group.Range, "Not allowed", "group: uid %d, which runs this host, is not in the group %s. Add it, or run the host as root.", os.Geteuid(), quote(group.V))
	default:
		return Control{Group: group.V, GID: int(gid)}
	}
	return Control{}
}

// canGive reports whether this process may give a file to a group.
func canGive(gid int) bool {
	groups, _ := os.Getgroups()
	return os.Geteuid() == 0 || os.Getegid() == gid || slices.Contains(groups, gid)
}
