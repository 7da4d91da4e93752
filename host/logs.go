package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/logs"
)

// followedTail is how much of the past is shown to who follows and says
// nothing else.
const followedTail = 10

func newLogsCommand(at *location) *cobra.Command {
	var asJSON, follow bool
	var tail int
	var since string
	cmd := &cobra.Command{
		Use:   "logs [SERVICE...]",
		Short: "Print what services wrote, and what happened to them",
		Long: `Print what services wrote, and what happened to them, merged by time. Without
a SERVICE it is that of all.

With --follow what is written from now on is printed too, until the host ends.
It begins with the last 10 lines unless --tail or --since says otherwise.`,
		Example:           "  plughost logs clock\n  plughost logs --tail 20 clock assistant\n  plughost logs -f --since 10m",
		ValidArgsFunction: at.completeServices,
		RunE: func(cmd *cobra.Command, args []string) error {
			query := logs.Query{Tail: tail}
			if cmd.Flags().Changed("tail") && tail < 0 {
				return usageError{fmt.Errorf("--tail is a number of lines, but not %d", tail)}
			}
			if since != "" {
				var err error
				if query.Since, err = parseSince(since, time.Now()); err != nil {
					return usageError{err}
				}
			}
			if follow && since == "" && !cmd.Flags().Changed("tail") {
				query.Tail = followedTail
			}
			paths, err := at.installation()
			if err != nil {
				return err
			}
			show := &logPrinter{out: bufio.NewWriter(cmd.OutOrStdout()), asJSON: asJSON, color: colored(cmd.OutOrStdout())}
			if follow {
				err := hostLogs(cmd.Context(), newClient(paths), args, query, true, show)
				if !errors.Is(err, control.ErrNoHost) {
					return err
				}
			}
			refs, err := readLogs(paths.Logs(), args, query, show)
			if errors.Is(err, fs.ErrPermission) {
				// Whoever the host lets in may read them, but not their files.
				return at.explain(hostLogs(cmd.Context(), newClient(paths), args, query, false, show))
			}
			if err != nil {
				return err
			}
			if follow {
				fmt.Fprintf(os.Stderr, "plughost: no host is running on %s, so nothing is added to the log of %s\n",
					paths.Dir, strings.Join(refs, ", "))
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on as the logs grow")
	cmd.Flags().StringVar(&since, "since", "", "print only what was logged since `TIME`: so long ago, as in 10m, or a time as in RFC 3339")
	cmd.Flags().IntVarP(&tail, "tail", "n", -1, "print only the last `N` lines")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object a line")
	return cmd
}

// parseSince reads a span of time before now, or a point in time.
func parseSince(text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.Time{}, fmt.Errorf(`--since is how long ago, such as 10m or 2h, or a time such as %s, but not %q`,
		now.Format(time.RFC3339), text)
}

// readLogs prints logs from their files, which needs no host, and returns whose
// they are.
func readLogs(dir string, names []string, query logs.Query, show *logPrinter) ([]string, error) {
	refs, err := logged(dir)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		if refs, err = findAll(refs, names); err != nil {
			return nil, err
		}
	}
	show.services(refs)
	var whose, paths []string
	for _, ref := range refs {
		whose = append(whose, ref.String())
		paths = append(paths, logs.Path(dir, ref.String()))
	}
	if err := logs.Read(paths, query, show.print); err != nil {
		return nil, err
	}
	return whose, show.out.Flush()
}

// hostLogs prints logs as the running host knows them, and until it ends if
// follow is set.
func hostLogs(ctx context.Context, client *control.Client, names []string, query logs.Query, follow bool, show *logPrinter) error {
	refs, err := known(ctx, client)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if refs, err = findAll(refs, names); err != nil {
			return err
		}
	}
	show.services(refs)
	err = client.Logs(ctx, refs, query, follow, func(entry logs.Entry) error {
		// Whoever looks on wants to see a line when it comes.
		return errors.Join(show.print(entry), show.out.Flush())
	})
	if err == nil && follow {
		fmt.Fprintln(os.Stderr, "plughost: the host has ended")
	}
	return err
}

// findAll finds the services that a person names, each once.
func findAll(known []config.Ref, names []string) ([]config.Ref, error) {
	var refs []config.Ref
	for _, name := range names {
		ref, err := find(known, name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// logPrinter prints entries for people or for programs.
type logPrinter struct {
	out    *bufio.Writer
	asJSON bool
	color  bool

	width  int
	colors map[string]int
}

// services says whose entries come.
func (p *logPrinter) services(refs []config.Ref) {
	// Cyan, yellow, green, magenta, blue, and these once more, bright. Red is
	// for what went wrong.
	palette := []int{36, 33, 32, 35, 34, 96, 93, 92, 95, 94}
	p.colors = make(map[string]int)
	for i, ref := range refs {
		p.width = max(p.width, len(ref.String()))
		if p.color {
			p.colors[ref.String()] = palette[i%len(palette)]
		}
	}
}

func (p *logPrinter) print(entry logs.Entry) error {
	if p.asJSON {
		return json.NewEncoder(p.out).Encode(entry)
	}
	_, err := fmt.Fprintln(p.out, entry.Format(p.width, p.colors[entry.Service]))
	return err
}

// logged are the services that have a log. It needs no running host.
func logged(dir string) ([]config.Ref, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read the logs: %w", err)
	}
	var refs []config.Ref
	for _, entry := range entries {
		service, ok := strings.CutSuffix(filepath.Base(entry.Name()), ".jsonl")
		if !ok {
			continue
		}
		if kind, name, ok := strings.Cut(service, "."); ok {
			refs = append(refs, config.Ref{Kind: config.Kind(kind), Name: name})
		}
	}
	return refs, nil
}
