//go:build linux

// Command chaos does a storm to a host, and checks after each step what its
// users were promised: no stranded port, no process of a dead instance, no
// zombie, no stranger touched, never two instances of one service, and
// everything ready again in time.
//
// The actions depend on the seed alone. What comes of them is looked at from
// outside, by means that share no code with the host: /proc, sockets, and the
// command line.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are the command line's.
type options struct {
	steps    int
	seed     uint64
	bin      string // directory of the built binaries
	plughost string // path of the host's
	faults   string // path of the fault plugin
	patience time.Duration
	only     []int // the steps to do; all if empty
	verbose  bool
	show     bool
}

func main() {
	if port, ok := os.LookupEnv(envStranger); ok {
		if err := beStranger(port); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	opts, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	if opts.show {
		for i, a := range plan(opts.seed, opts.steps) {
			fmt.Printf("%4d  %v\n", i+1, a)
		}
		return
	}
	code, err := enter(opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func parse(args []string) (options, error) {
	var opts options
	var only string
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.IntVar(&opts.steps, "steps", 300, "how many actions")
	flags.Uint64Var(&opts.seed, "seed", 1, "which storm")
	flags.StringVar(&opts.bin, "bin", "bin", "`directory` of the built host and example plugins")
	flags.StringVar(&opts.faults, "faults", "", "`path` of the built test/faultplugin (default in -bin)")
	flags.DurationVar(&opts.patience, "patience", time.Minute, "how long a recovery, or a command, may take")
	flags.StringVar(&only, "only", "", "do only the steps with these `numbers`, as in 3,17,18")
	flags.BoolVar(&opts.verbose, "v", false, "tell of each step")
	flags.BoolVar(&opts.show, "plan", false, "only print the actions")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	if flags.NArg() > 0 {
		return opts, fmt.Errorf("there is nothing to do with %q", flags.Arg(0))
	}
	var err error
	if opts.bin, err = filepath.Abs(opts.bin); err != nil {
		return opts, err
	}
	if opts.faults == "" {
		opts.faults = filepath.Join(opts.bin, "faultplugin")
	}
	if opts.faults, err = filepath.Abs(opts.faults); err != nil {
		return opts, err
	}
	opts.plughost = filepath.Join(opts.bin, "plughost")
	for field := range strings.FieldsFuncSeq(only, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return opts, fmt.Errorf("-only: %w", err)
		}
		opts.only = append(opts.only, n)
	}
	return opts, nil
}

// run does the storm, and returns the exit status.
func run(opts options, base string, diskFull, ownPIDs bool) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	t := &tester{
		options:   opts,
		self:      self,
		stateDir:  filepath.Join(base, "state"),
		config:    filepath.Join(base, "services.hcl"),
		diskFull:  diskFull,
		ownPIDs:   ownPIDs,
		out:       os.Stdout,
		world:     newWorld(),
		usurpers:  make(map[string]*stranger),
		over:      make(chan struct{}),
		watched:   make(chan struct{}),
		instances: make(map[string]bool),
	}
	if err := t.setUp(); err != nil {
		return 0, err
	}
	defer t.cleanUp()
	actions := plan(opts.seed, opts.steps)
	sum := &summary{kinds: make(map[kind]int)}
	start := time.Now()
	if err := t.storm(actions, sum.add); err != nil {
		t.tell(err, actions, sum.step)
		return 1, nil
	}
	sum.print(t, time.Since(start))
	return 0, nil
}

// summary is what a storm was.
type summary struct {
	step    int // the last that went well
	steps   int
	kinds   map[kind]int
	longest time.Duration
	where   string
}

func (s *summary) add(step int, a action, recovery time.Duration) {
	s.step = step
	s.steps++
	s.kinds[a.kind]++
	if recovery > s.longest {
		s.longest, s.where = recovery, fmt.Sprintf("step %d: %s", step, a.kind)
	}
}

func (s *summary) print(t *tester, took time.Duration) {
	fmt.Fprintf(t.out, "seed %d: %d steps\n", t.seed, s.steps)
	kinds := make([]kind, 0, len(s.kinds))
	for k := range s.kinds {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b kind) int {
		if s.kinds[a] != s.kinds[b] {
			return s.kinds[b] - s.kinds[a]
		}
		return strings.Compare(string(a), string(b))
	})
	for _, k := range kinds {
		fmt.Fprintf(t.out, "%6d  %s\n", s.kinds[k], k)
	}
	for _, missing := range t.leftOut() {
		fmt.Fprintf(t.out, "left out: %s\n", missing)
	}
	fmt.Fprintf(t.out, "%d instances, %d of them restarts; at most %d files open in the host\n",
		len(t.instances), len(t.instances)-len(specs()), t.maxFiles)
	fmt.Fprintf(t.out, "longest recovery %v (%s)\n", s.longest.Round(time.Millisecond), s.where)
	fmt.Fprintf(t.out, "no invariant was violated, in %.1f seconds\n", took.Seconds())
}

// leftOut says what this system, or this host, does not allow.
func (t *tester) leftOut() []string {
	var missing []string
	if !t.diskFull {
		missing = append(missing, "a full disk, since nothing can be mounted here")
	}
	if !t.ownPIDs {
		missing = append(missing, "the reuse of a pid, since there can be no pid namespace here")
	}
	if !t.reloads {
		missing = append(missing, "plughost reload, which this host does not know: it is restarted instead")
	}
	return missing
}
