package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/probes"
)

// finding is one thing that doctor looks at.
type finding struct {
	// Name is short, as in "pidfd".
	Name string `json:"name"`
	// Good says that nothing is missing.
	Good bool `json:"good"`
	// Found is what the system has.
	Found string `json:"found"`
	// Means is what follows for the user.
	Means string `json:"means"`
}

// diagnosis is what doctor prints.
type diagnosis struct {
	Coverage probes.Capabilities `json:"coverage"`
	Findings []finding           `json:"findings"`
}

func newDoctorCommand(at *location) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this system lets plughost prove and prevent",
		Long: `Say what this system lets plughost prove of processes and prevent, as the
current user, and what follows from each. Run it as the user that runs the host.`,
		Example: "  plughost doctor\n  plughost doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			coverage := probes.Coverage()
			d := diagnosis{Coverage: coverage, Findings: append(proofFindings(coverage), systemFindings(at.dir(""))...)}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), d)
			}
			writeDiagnosis(cmd.OutOrStdout(), d)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// proofFindings say what package probes can do here.
func proofFindings(c probes.Capabilities) []finding {
	return []finding{
		choose("identity", c.Supported,
			"processes can be identified", "a process is signalled only when it is proven to be ours",
			"processes cannot be identified", "no process is ever signalled, so none can be started either"),
		choose("held processes", c.Hold,
			"a process can be held by a handle", "a signal cannot hit the successor of a pid",
			"processes are known by pid alone", "identity is checked right before each signal, which leaves a very short window"),
		choose("birth records", c.UniqueBirth,
			"each process has a number that is never given again", "a recorded process is told from every later one",
			"processes are told apart by pid and start time", "two processes that get the same pid within a clock tick look the same; the marker decides then"),
		choose("process groups", c.HeldGroup,
			"a group can be signalled after its leader's end", "children that outlive their plugin are ended with their group",
			"a group can be signalled only while its leader lives", "children that outlive their plugin are found by their marker"),
		choose("environments", c.Environ,
			"the environment of this user's processes can be read", "orphans are found by their marker even if the registry is lost",
			"environments cannot be read", "orphans are found by the registry alone"),
		choose("other users", c.AllUsers,
			"the environment of other users' processes can be read", "services that run as another user are identified by marker too",
			"the environment of other users' processes cannot be read", "services that run as another user are identified by their birth record alone; run the host as root to change that"),
		choose("listening sockets", c.Sockets,
			"the kernel is asked for them directly", "the holder of a port is found fast",
			"they are looked for the slow way", "finding the holder of a port takes longer"),
	}
}

func choose(name string, good bool, found, means, foundNot, meansNot string) finding {
	if good {
		return finding{name, true, found, means}
	}
	return finding{name, false, foundNot, meansNot}
}

func writeDiagnosis(w io.Writer, d diagnosis) {
	fmt.Fprintf(w, "System: %s %s\n\n", d.Coverage.OS, d.Coverage.Release)
	for _, f := range d.Findings {
		mark := "ok     "
		if !f.Good {
			mark = "limited"
		}
		fmt.Fprintf(w, "%s  %s: %s\n         %s.\n", mark, f.Name, f.Found, f.Means)
	}
	for _, note := range d.Coverage.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", note)
	}
}
