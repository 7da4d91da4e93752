package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/plughost/plughost/probes"
)

// envRole has the test binary be one of the processes below instead.
const envRole = "CGROUP_TEST_ROLE"

var roles = map[string]func(){
	// Says that it is there, and lives until it is killed.
	"idle": func() {
		fmt.Println("ready")
		live()
	},
	// Uses more memory than it may.
	"eater": func() {
		fmt.Println("ready")
		var all [][]byte
		for {
			piece := make([]byte, 1<<20)
			for i := range piece {
				piece[i] = 1
			}
			all = append(all, piece)
			if len(all) > 4096 {
				panic("there is no limit")
			}
		}
	},
	// Starts as many processes as it can.
	"breeder": func() {
		var err error
		for range 200 {
			cmd := exec.Command("/bin/sleep", "1000")
			if err = cmd.Start(); err != nil {
				break
			}
		}
		fmt.Println(errors.Is(err, syscall.EAGAIN))
		live()
	},
	// A host in a group that it is told to reclaim.
	"suicide": func() {
		t := openOrDie()
		left := t.Reclaim([]string{pathOf(t, t.own)}, func(string) bool { return false })
		fmt.Printf("%d %v\n", len(left), left[0].Err)
	},
	// A host that needs a controller.
	"mover": func() {
		t := openOrDie()
		if err := t.enable(os.Args[1]); err != nil {
			fmt.Println(err)
			return
		}
		p, err := find()
		fmt.Println(filepath.Base(p.own), p.base == t.base, err)
		again, err := Open(os.Getenv("CGROUP_TEST_INSTALLATION"))
		fmt.Println(err == nil && again.base == t.base)
		err = t.Close()
		p, findErr := find()
		on, hasErr := p.has("cgroup.subtree_control", os.Args[1])
		fmt.Println(p.own == t.base, on, errors.Join(err, findErr, hasErr))
	},
}

// live returns when the process is killed.
func live() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals) // or the runtime would take it for a deadlock
	for range signals {
	}
}

func openOrDie() *Tree {
	t, err := Open(os.Getenv("CGROUP_TEST_INSTALLATION"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return t
}

func pathOf(t *Tree, dir string) string { return t.Path(&Group{dir: dir}) }

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv(envRole)]; ok {
		role()
		return
	}
	os.Exit(m.Run())
}

func newID(t *testing.T) string {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

func newTree(t *testing.T) *Tree {
	t.Helper()
	tree, err := Open(newID(t))
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
		for _, dir := range tree.groups() {
			t.Errorf("%s is left", dir)
		}
	})
	return tree
}

// newGroup makes a group that is ended with the test.
func newGroup(t *testing.T, tree *Tree, limits Limits) (group *Group, instance string) {
	t.Helper()
	instance = newID(t)
	g, err := tree.New(instance, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = g.Kill()
		_ = g.Remove()
	})
	return g, instance
}

// child is a process that was started in a group.
type child struct {
	*probes.Process
	out *bufio.Reader
}

func (c child) line(t *testing.T) string {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the process ended before it said what it should: %v", err)
	}
	return strings.TrimSpace(line)
}

// start starts a process in the group of a directory.
func start(t *testing.T, dir, role string, args ...string) child {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), envRole+"="+role)
	if len(args) > 1 {
		cmd.Env = append(cmd.Env, "CGROUP_TEST_INSTALLATION="+args[1])
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd()), Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	process, err := probes.Open(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		process.Close()
	})
	return child{process, bufio.NewReader(out)}
}

func TestKillEndsAllOfAGroupAndOfGroupsBelow(t *testing.T) {
	tree := newTree(t)
	g, _ := newGroup(t, tree, Limits{})
	below := filepath.Join(g.dir, "below", "deeper")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	children := []child{start(t, g.dir, "idle"), start(t, g.dir, "idle"), start(t, below, "idle")}
	var want []int
	for _, c := range children {
		c.line(t)
		want = append(want, c.PID())
	}
	pids, err := g.Kill()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(pids)
	slices.Sort(want)
	if !slices.Equal(pids, want) {
		t.Errorf("it ended %v, want %v", pids, want)
	}
	for _, c := range children {
		if !c.Exited() {
			t.Errorf("pid %d is still alive", c.PID())
		}
	}
	if err := g.Remove(); err != nil {
		t.Fatal(err)
	}
	if exists(g.dir) {
		t.Errorf("%s is still there", g.dir)
	}
	if pids, err := g.Kill(); len(pids) > 0 || err != nil {
		t.Errorf("a second kill gives %v, %v", pids, err)
	}
}

func TestReclaimTakesExactlyItsOwn(t *testing.T) {
	tree, other := newTree(t), newTree(t)
	dead, deadID := newGroup(t, tree, Limits{})
	empty, emptyID := newGroup(t, tree, Limits{})
	kept, keptID := newGroup(t, tree, Limits{})
	foreign, _ := newGroup(t, other, Limits{})
	// One that was made where the host ran before, and two that are no
	// instances'.
	elsewhere := filepath.Join(tree.base, "plughost-test-"+newID(t))
	movedID := newID(t)
	moved := filepath.Join(elsewhere, groupName(tree.installation, movedID))
	strange := filepath.Join(elsewhere, groupName(tree.installation, newID(t))+".old")
	odd := filepath.Join(tree.base, groupName(tree.installation, "x"))
	for _, dir := range []string{moved, strange, odd} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	victims := []child{start(t, dead.dir, "idle"), start(t, moved, "idle")}
	spared := []child{
		start(t, kept.dir, "idle"), start(t, foreign.dir, "idle"), start(t, strange, "idle"),
		start(t, odd, "idle"), start(t, elsewhere, "idle"),
	}
	t.Cleanup(func() {
		for _, c := range slices.Concat(victims, spared) {
			_ = c.Signal(syscall.SIGKILL)
			_ = c.Wait(t.Context())
		}
		for _, dir := range []string{moved, strange, odd, elsewhere} {
			removeWhenEmpty(t, dir)
		}
	})
	var paths []string
	for _, dir := range []string{moved, strange, odd, elsewhere, foreign.dir, kept.dir, tree.own, tree.mount} {
		paths = append(paths, pathOf(tree, dir))
	}
	paths = append(paths, "", "/", "relative", "/../..", pathOf(tree, moved)+"/.", pathOf(tree, dead.dir)+"/../"+filepath.Base(odd))

	got := make(map[string][]int)
	for _, left := range tree.Reclaim(paths, func(instance string) bool { return instance == keptID }) {
		if left.Err != nil {
			t.Errorf("instance %s: %v", left.Instance, left.Err)
		}
		got[left.Instance] = left.PIDs
	}
	want := map[string][]int{deadID: {victims[0].PID()}, movedID: {victims[1].PID()}, emptyID: nil}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("it took %v, want %v", got, want)
	}
	for _, c := range victims {
		if !c.Exited() {
			t.Errorf("pid %d is still alive", c.PID())
		}
	}
	for i, c := range spared {
		if c.Exited() {
			t.Errorf("process %d, which is not the installation's, was ended", i)
		}
	}
	for _, dir := range []string{dead.dir, empty.dir, moved} {
		if exists(dir) {
			t.Errorf("%s is still there", dir)
		}
	}
}

// removeWhenEmpty removes a group whose last processes are ending.
func removeWhenEmpty(t *testing.T, dir string) {
	if !exists(dir) {
		return
	}
	g := &Group{dir: dir}
	if err := g.waitUntilEmpty(time.Now().Add(probes.Settle)); err != nil {
		t.Error(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Error(err)
	}
}

func TestGroupOfAnEarlierHostIsFoundByItsPath(t *testing.T) {
	tree, other := newTree(t), newTree(t)
	g, instance := newGroup(t, tree, Limits{})
	found := tree.Find(instance, tree.Path(g))
	if found == nil || found.dir != g.dir {
		t.Fatalf("found %v, want %s", found, g.dir)
	}
	found.file.Close()
	for _, got := range []*Group{
		tree.Find(instance, ""), tree.Find(instance, "/"), tree.Find(newID(t), tree.Path(g)), other.Find(instance, tree.Path(g)),
	} {
		if got != nil {
			t.Errorf("%s is taken for another group", got.dir)
		}
	}
}

func TestAHostNeverEndsItself(t *testing.T) {
	tree := newTree(t)
	g, _ := newGroup(t, tree, Limits{})
	c := start(t, g.dir, "suicide", "", tree.installation)
	if got := c.line(t); !strings.HasPrefix(got, "1 the host itself is in") {
		t.Errorf("a host in the group that it reclaims says %q", got)
	}
}

// controller is one that groups below the tree's base can have, which is
// switched on there for the test.
func controller(t *testing.T, tree *Tree) string {
	t.Helper()
	for _, name := range []string{"pids", "memory", "hugetlb"} {
		if offered, err := tree.has("cgroup.controllers", name); err != nil || !offered {
			continue
		}
		if on, err := tree.has("cgroup.subtree_control", name); err == nil && on {
			return name
		}
		if _, err := tree.why(name); err != nil {
			continue
		}
		if err := tree.enable(name); err != nil {
			t.Fatal(err)
		}
		return name // the tree's Close switches it off
	}
	t.Skip("no controller can be had here")
	return ""
}

func TestHostMovesAsideForLimits(t *testing.T) {
	tree := newTree(t)
	name := controller(t, tree)
	outer := filepath.Join(tree.base, "plughost-test-"+newID(t))
	if err := os.Mkdir(outer, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeWhenEmpty(t, outer) })

	c := start(t, outer, "mover", name, tree.installation)
	for _, want := range []string{
		"plughost-host true <nil>",
		"true",
		"true false <nil>",
	} {
		if got := c.line(t); got != want {
			t.Errorf("the host says %q, want %q", got, want)
		}
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}

	// With another process in the group it stays where it is.
	stranger := start(t, outer, "idle")
	stranger.line(t)
	c = start(t, outer, "mover", name, tree.installation)
	if got := c.line(t); !strings.Contains(got, "pid "+strconv.Itoa(stranger.PID())) {
		t.Errorf("the host says %q, want that it names pid %d", got, stranger.PID())
	}
	if stranger.Exited() {
		t.Error("the other process was ended")
	}
	_ = stranger.Signal(syscall.SIGKILL)
	_ = stranger.Wait(t.Context())
	_ = c.Wait(t.Context())
}

func TestLimitsHold(t *testing.T) {
	tree := newTree(t)
	limits := Limits{Memory: 64 << 20, CPUs: 0.5, Processes: 40}
	if missing := tree.Missing(limits); len(missing) > 0 {
		t.Skip(missing)
	}
	g, _ := newGroup(t, tree, limits)
	if content, err := os.ReadFile(filepath.Join(g.dir, "cpu.max")); err != nil || string(content) != "50000 100000\n" {
		t.Errorf("cpu.max is %q (%v)", content, err)
	}
	idle, eater := start(t, g.dir, "idle"), start(t, g.dir, "eater")
	for _, c := range []child{idle, eater} {
		if err := c.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	events, err := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	if err != nil || !strings.Contains(string(events), "oom_group_kill 1") || !g.OutOfMemory() {
		t.Errorf("the group was not ended by the kernel for its memory (%v):\n%s", err, events)
	}
	if got := start(t, g.dir, "breeder").line(t); got != "true" {
		t.Errorf("it could start 200 processes")
	}
}

func TestWhatCannotBeLimitedIsNamed(t *testing.T) {
	tree := newTree(t)
	limits := Limits{Memory: 1 << 30, CPUs: 1, Processes: 100}
	for _, err := range tree.Missing(limits) {
		var unavailable *UnavailableError
		if !errors.As(err, &unavailable) || !strings.HasPrefix(unavailable.What, "limits.") || unavailable.Reason == "" {
			t.Errorf("%v does not name the limit and the reason", err)
		}
	}
	newGroup(t, tree, limits) // all the same
}

func TestLocate(t *testing.T) {
	const (
		v2     = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid = "31 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n" +
			"32 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
			"40 30 0:37 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	)
	tests := []struct {
		name, mounts, groups string
		own, base, reason    string
	}{
		{"a unit of systemd", v2, "0::/system.slice/plughost.service\n", "/sys/fs/cgroup/system.slice/plughost.service", "", ""},
		{"a container", v2, "0::/\n", "/sys/fs/cgroup", "", ""},
		{"beside v1", hybrid, "4:memory:/a\n0::/b\n", "/sys/fs/cgroup/unified/b", "", ""},
		{"a host that moved aside", v2, "0::/a.service/plughost-host\n", "/sys/fs/cgroup/a.service/plughost-host", "/sys/fs/cgroup/a.service", ""},
		{"a part that is mounted", "1 2 0:3 /docker/x /cg rw - cgroup2 none rw\n", "0::/docker/x/y\n", "/cg/y", "", ""},
		{"a name with a colon and a blank", v2, "0::/a:b c\n", "/sys/fs/cgroup/a:b c", "", ""},
		{"a mount with a blank", "1 2 0:3 / /my\\040groups rw - cgroup2 none rw\n", "0::/a\n", "/my groups/a", "", ""},
		{"outside of what is mounted", "1 2 0:3 /docker/x /cg rw - cgroup2 none rw\n", "0::/docker/z\n", "", "", "not below"},
		{"outside of the namespace", v2, "0::/../other\n", "", "", "not below"},
		{"no v2", "31 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "1:cpu:/\n", "", "", "not mounted"},
		{"in no group", v2, "1:cpu:/\n", "", "", "in no group"},
		{"nothing", "", "", "", "", "not mounted"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := locate(test.mounts, test.groups)
			if test.reason != "" {
				if err == nil || !strings.Contains(err.Error(), test.reason) {
					t.Errorf("the error is %v, want %q in it", err, test.reason)
				}
				return
			}
			base := test.base
			if base == "" {
				base = test.own
			}
			if err != nil || p.own != test.own || p.base != base {
				t.Errorf("own %q, base %q (%v), want %q, %q", p.own, p.base, err, test.own, base)
			}
		})
	}
	p, err := locate(hybrid, "0::/\n")
	if err != nil || !slices.Equal(p.version1, []string{"rw", "cpu", "cpuacct", "rw", "memory"}) {
		t.Errorf("v1 has %q (%v)", p.version1, err)
	}
}
