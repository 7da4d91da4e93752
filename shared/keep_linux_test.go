package shared

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
)

// startKept starts a plugin that outlives its host, and asks it what it is.
func startKept(t *testing.T, ttl string) *child {
	t.Helper()
	c := start(t, EnvOrphanTTL+"="+ttl)
	if _, err := plughostv1.NewPluginClient(c.conn).Describe(t.Context(), &plughostv1.DescribeRequest{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// host is the test's end of the pipes of an adoption.
type host struct {
	stdout, stderr, lifeline *os.File
	request                  *plughostv1.AdoptRequest
}

func newHost(t *testing.T, dir, name string) host {
	t.Helper()
	open := func(what string) *os.File {
		path := filepath.Join(dir, name+what)
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	return host{
		stdout: open("out"), stderr: open("err"), lifeline: open("life"),
		request: &plughostv1.AdoptRequest{Stdout: name + "out", Stderr: name + "err", Lifeline: name + "life"},
	}
}

// adopt has the plugin take the test for its next host.
func (c *child) adopt(request *plughostv1.AdoptRequest) (output []string, err error) {
	answer, err := plughostv1.NewPluginClient(c.conn).Adopt(c.t.Context(), request)
	return answer.GetOutput(), err
}

// untilFile waits until a file is in the instance's directory, or is not.
func (c *child) untilFile(name string, there bool) {
	c.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		if _, err := os.Stat(filepath.Join(c.dir, name)); (err == nil) == there {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			c.t.Fatalf("in vain waited for %s: to be there: %v", name, there)
		}
	}
}

func (c *child) content(name string) string {
	c.t.Helper()
	content, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(content)
}

func TestAKeptPluginGoesFromHostToHost(t *testing.T) {
	c := startKept(t, "1h")
	say := c.session()
	_ = c.lifeline.Close()
	c.untilFile("output.1.log", true)
	for _, next := range []string{"a", "b"} {
		say("log")
		h := newHost(t, c.dir, next)
		output, err := c.adopt(h.request)
		if err != nil {
			t.Fatal(err)
		}
		if len(output) != 1 || strings.Count(c.content(output[0]), "to standard error") != 1 {
			t.Errorf("it wrote %v without a host, want one file with one line", output)
		}
		say("log")
		line, err := bufio.NewReader(h.stderr).ReadString('\n')
		if err != nil || !strings.Contains(line, "to standard error") {
			t.Errorf("host %s read %q, %v", next, line, err)
		}
		if next == "a" {
			_ = h.lifeline.Close()
			c.untilFile("output.2.log", true)
		}
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	c.checkGone()
}

func TestAKeptPluginEndsAfterItsTime(t *testing.T) {
	c := startKept(t, "50ms")
	_ = c.lifeline.Close()
	c.checkGone()
}

func TestAKeptPluginEndsBySIGTERMWithoutAHost(t *testing.T) {
	c := startKept(t, "1h")
	_ = c.lifeline.Close()
	c.untilFile("output.1.log", true)
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	c.checkGone()
}

func TestAPluginThatNoHostKnowsIsNotKept(t *testing.T) {
	c := start(t, EnvOrphanTTL+"=1h")
	_ = c.lifeline.Close()
	c.checkGone()
}

// Nobody reads what it writes meanwhile.
func TestAKeptPluginThatWritesALotEndsWithoutAHost(t *testing.T) {
	for what, ending := range map[string]func(c *child){
		"by SIGTERM":          func(c *child) { _ = c.cmd.Process.Signal(syscall.SIGTERM) },
		"since none knows it": func(c *child) { _ = c.lifeline.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			c := start(t, EnvOrphanTTL+"=1h")
			say := c.session()
			say("begin")
			ending(c)
			c.untilDraining()
			_ = c.stderrR.Close()
			say("flood")
			say("end")
			c.checkGone()
		})
	}
}

func TestAPluginThatEndsWithItsHostCannotBeAdopted(t *testing.T) {
	c := start(t)
	if _, err := c.adopt(newHost(t, c.dir, "a").request); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("error %v, want %v", err, codes.FailedPrecondition)
	}
}

// untilSays waits until a file of the instance's directory has a line in it.
func (c *child) untilSays(name, line string) {
	c.t.Helper()
	c.untilFile(name, true)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !strings.Contains(c.content(name), line+"\n") {
		select {
		case <-tick.C:
		case <-deadline:
			c.t.Fatalf("%s does not say %q: %q", name, line, c.content(name))
		}
	}
}

// The plugin notices later than the kernel that its host is gone. Nor does it
// lose what the host has not read, or what its children write.
func TestAKeptPluginLosesNothingThatIsWrittenWhileItsHostEnds(t *testing.T) {
	c := startKept(t, "1h")
	say := c.session()
	if got := say("heir"); got != "done" {
		t.Fatal(got)
	}
	const own, heirs = "to standard error", "from the heir"
	_ = c.stderrR.Close()
	say("log")
	_ = c.lifeline.Close()
	c.untilSays("output.1.log", own)
	say("heir writes")
	c.untilSays("output.1.log", heirs)

	next := newHost(t, c.dir, "next")
	if _, err := c.adopt(next.request); err != nil {
		t.Fatal(err)
	}
	say("heir writes")
	if line, err := bufio.NewReader(next.stderr).ReadString('\n'); line != heirs+"\n" {
		t.Errorf("the next host read %q, %v", line, err)
	}
	say("log")
	_ = next.stderr.Close()
	say("log")
	_ = next.lifeline.Close()
	say("heir writes")
	c.untilSays("output.2.log", heirs)
	if n := strings.Count(c.content("output.2.log"), own); n != 2 {
		t.Errorf("%d lines of its own are kept, want 2: %q", n, c.content("output.2.log"))
	}
}

// An adoption that cannot be done changes nothing.
func TestAdoptionWithWrongPipes(t *testing.T) {
	c := startKept(t, "1h")
	say := c.session()
	_ = c.lifeline.Close()
	c.untilFile("output.1.log", true)
	for _, file := range []string{"plain", "link"} {
		if err := os.WriteFile(filepath.Join(c.dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(c.dir, "deserted"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := newHost(t, c.dir, "good")
	link := filepath.Join(c.dir, "link")
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(good.stdout.Name(), link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "missing", "plain", "link", "deserted", "../" + filepath.Base(c.dir) + "/goodout", good.stdout.Name(), "."} {
		request := &plughostv1.AdoptRequest{Stdout: name, Stderr: "gooderr", Lifeline: "goodlife"}
		if _, err := c.adopt(request); err == nil {
			t.Errorf("%q is taken for a pipe of the host", name)
		}
	}
	say("log")
	output, err := c.adopt(good.request)
	if err != nil {
		t.Fatal(err)
	}
	if len(output) != 1 || strings.Count(c.content(output[0]), "to standard error") != 1 {
		t.Errorf("it wrote %v meanwhile, want one file with one line", output)
	}
}

func TestTheOutputOfAPluginWithoutAHostIsBounded(t *testing.T) {
	c := startKept(t, "1h")
	say := c.session()
	_ = c.lifeline.Close()
	c.untilFile("output.1.log", true)
	say("flood")
	c.untilFile("output.2.log", true)
	say("flood")
	c.untilFile("output.3.log", true)
	c.untilFile("output.1.log", false)
	say("log")
	output, err := c.adopt(newHost(t, c.dir, "a").request)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(output, " ") != "output.2.log output.3.log" || !strings.HasSuffix(c.content(output[1]), "to standard error\n") {
		t.Errorf("it says that it wrote %v", output)
	}
}
