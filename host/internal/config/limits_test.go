package config

import (
	"os"
	"os/user"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/plughost/plughost/host/internal/account"
)

func TestLimitsAreRead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there are warnings")
	}
	digest := strings.Repeat("Ab", 32)
	cfg, diags := loadText(t, "services.hcl", written(
		`@ checksum="sha256:`+digest+`"| no_new_privs=true| limits {|  memory="512MiB"|  cpus=0.5|  processes=64|  open_files=1024|  nice=-5| }|}`))
	good(t, cfg, diags)
	got := service(t, cfg, "mcp.a")
	nice := -5
	want := Limits{Memory: 512 << 20, CPUs: 0.5, Processes: 64, OpenFiles: 1024, Nice: &nice}
	if !reflect.DeepEqual(got.Limits, want) {
		t.Errorf("limits are %+v, want %+v", got.Limits, want)
	}
	if got.Checksum != strings.ToLower(digest) || !got.NoNewPrivs || got.Account != nil {
		t.Errorf("service is %+v", got)
	}

	cfg, diags = loadText(t, "services.hcl", written(`@ limits {| }|}`))
	good(t, cfg, diags)
	if got := service(t, cfg, "mcp.a"); got.Limits != (Limits{}) || got.NoNewPrivs || got.Checksum != "" {
		t.Errorf("without any, limits are %+v", got)
	}
}

func TestUserIsRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may write user")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	cfg, diags := loadText(t, "services.hcl", written(
		`@ user="nobody"|}|service "mcp" "b" {| command=["sh"]| user=`+nobody.Uid+`| no_new_privs=false|}|`+
			`service "mcp" "c" {| command=["sh"]| user=54321| group=54322|}`))
	good(t, cfg, diags)
	a, b, c := service(t, cfg, "mcp.a"), service(t, cfg, "mcp.b"), service(t, cfg, "mcp.c")
	if a.Account == nil || a.Account.Name != "nobody" || !a.NoNewPrivs {
		t.Errorf("by name: %+v, no_new_privs %t", a.Account, a.NoNewPrivs)
	}
	if !reflect.DeepEqual(a.Account, b.Account) || b.NoNewPrivs {
		t.Errorf("by number: %+v, no_new_privs %t", b.Account, b.NoNewPrivs)
	}
	if want := (&account.Account{Name: "54321", Home: "/", UID: 54321, GID: 54322}); !reflect.DeepEqual(c.Account, want) {
		t.Errorf("a bare number: %+v, want %+v", c.Account, want)
	}
}

func TestFaultsOfUserAreReportedAtTheFault(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no user to write")
	}
	for text, want := range map[string]finding{
		`@ user="no-such-user-7f3"|}`:          at("3,7-25", `no user "no-such-user-7f3"`),
		`@ user="root"| group="no-such-7f3"|}`: at("4,8-21", `no group "no-such-7f3"`),
		`@ group="root"|}`:                     at("3,8-14", "Group without user"),
		`@ user=54321|}`:                       at("3,7-12", "Name one in group"),
		`@ user=-1|}`:                          at("3,7-9", `no user "-1"`),
		`@ user=4294967295| group=1|}`:         at("3,7-17", `no user "4294967295"`),
		`@ user=["root"]|}`:                    at("3,7-15", "a string is required"),
		`@ no_new_privs="maybe"|}`:             at("3,15-22", "true or false is required"),
		`@ no_new_privs={}|}`:                  at("3,15-17", "true or false is required"),
		`@ user="no-7f3"| group="no-7f4"|}`:    at("3,7-15", "no user"),
	} {
		_, diags := loadText(t, "services.hcl", written(text))
		wantFindings(t, diags, want)
	}
}
