package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/spf13/cobra"

	"github.com/plughost/plughost/host/internal/agents"
	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/control"
	"github.com/plughost/plughost/host/internal/supervise"
)

const (
	// exitWaiting is the status of an agent that waits for more.
	exitWaiting = 3
	// cancelTimeout bounds the cancellation of a task.
	cancelTimeout = 5 * time.Second
	// maxQuestion bounds a question that is read, in bytes.
	maxQuestion = 1 << 20
)

// question is what is asked of an agent.
type question struct {
	text   string
	task   string // that it goes on with, if any
	asJSON bool
}

func newAskCommand(at *location) *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:   "ask AGENT TEXT...",
		Short: "Ask an agent something, and print its answer as it comes",
		Long: `Ask an agent something, and print its answer as it comes. What the agent says of
its work goes to standard error. The text - is read from standard input. Ctrl-C
cancels the task; a second one does not wait for that.

With --json it is each event of the stream, as the JSON of A2A, one a line.

Exit status: 0 answered, 1 failed, 3 the agent asks back: answer with --task.`,
		Example: `  plughost ask assistant "What time is it in Tokyo?"
  plughost ask assistant --json Days until 2026-12-24`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: at.completeService,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if q.text, err = questionText(args[1:], cmd.InOrStdin()); err != nil {
				return err
			}
			client, err := at.client()
			if err != nil {
				return err
			}
			agent, err := findAgent(cmd.Context(), client, args[0])
			if err != nil {
				return at.explain(err)
			}
			var p printer = &textPrinter{out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr()}
			if q.asJSON {
				p = &jsonPrinter{out: cmd.OutOrStdout()}
			}
			return ask(cmd.Context(), client, agent, q, p)
		},
	}
	cmd.Flags().BoolVar(&q.asJSON, "json", false, "print a JSON object a line")
	cmd.Flags().StringVar(&q.task, "task", "", "go on with this task")
	return cmd
}

// questionText is the text of the arguments, or what is read if they say so.
func questionText(args []string, in io.Reader) (string, error) {
	text := strings.Join(args, " ")
	if text == "-" {
		read, err := io.ReadAll(io.LimitReader(in, maxQuestion+1))
		if err != nil {
			return "", fmt.Errorf("cannot read the question: %w", err)
		}
		if len(read) > maxQuestion {
			return "", fmt.Errorf("the question is longer than %d bytes", maxQuestion)
		}
		text = string(read)
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", usageError{errors.New("the question is empty")}
	}
	return text, nil
}

// findAgent returns the name of the agent that a person names, if it can be
// asked.
func findAgent(ctx context.Context, client *control.Client, name string) (string, error) {
	status, err := client.Status(ctx)
	if err != nil {
		return "", err
	}
	var known []string
	for _, service := range status.Services {
		if service.Service.Kind != config.KindAgent {
			continue
		}
		if service.Service.Name == name || service.Service.String() == name {
			return service.Service.Name, askable(service.Status)
		}
		known = append(known, service.Service.Name)
	}
	if len(known) == 0 {
		return "", fmt.Errorf("there is no agent %q: the host has none", name)
	}
	return "", fmt.Errorf("there is no agent %q: there are %s", name, strings.Join(known, ", "))
}

// askable is why an agent cannot be asked, if it cannot.
func askable(agent supervise.Status) error {
	switch agent.State {
	case supervise.Ready, supervise.Unhealthy:
		return nil
	case supervise.Stopped, supervise.Failed:
		return fmt.Errorf("%s cannot be asked: it is %s%s; start it with 'plughost start %s'",
			agent.Service, agent.State, inParentheses(agent.LastError), agent.Service)
	default:
		return fmt.Errorf("%s cannot be asked yet: it is %s%s", agent.Service, agent.State, inParentheses(agent.Cause))
	}
}

// clientOf makes a client of an agent, which is reached through the host's socket
// and not where its card says. The card says whether it streams.
func clientOf(ctx context.Context, host *control.Client, agent string) (*a2aclient.Client, error) {
	web, base := host.Gateway()
	url := base + agents.Path(agent)
	card, err := agentcard.NewResolver(web).Resolve(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("the card of agent.%s cannot be read: %w", agent, err)
	}
	card.SupportedInterfaces = []*a2a.AgentInterface{a2a.NewAgentInterface(url, a2a.TransportProtocolJSONRPC)}
	return a2aclient.NewFromCard(ctx, card, a2aclient.WithJSONRPCTransport(web))
}

// ask asks an agent and prints its answer. An interrupt cancels the task.
func ask(ctx context.Context, host *control.Client, agent string, q question, p printer) error {
	client, err := clientOf(ctx, host, agent)
	if err != nil {
		return err
	}
	message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(q.text))
	message.TaskID = a2a.TaskID(q.task)
	interrupted, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	reading, stopReading := context.WithCancel(ctx)
	defer stopReading()
	a := newAsking(message.TaskID)
	defer context.AfterFunc(interrupted, func() {
		stop() // the next interrupt ends the command
		a.await()
		stopReading()
	})()
	for event, err := range client.SendStreamingMessage(reading, &a2a.SendMessageRequest{Message: message}) {
		if err != nil {
			a.err = err
			break
		}
		a.follow(event)
		if err := p.print(event); err != nil {
			return err
		}
	}
	if interrupted.Err() != nil {
		return errors.Join(p.end(), a.cancel(ctx, client))
	}
	return errors.Join(p.end(), a.outcome())
}

// asking is what is known of a question that was asked.
type asking struct {
	task  a2a.TaskID
	known chan struct{} // closed when task is
	state a2a.TaskState // empty for an answer that is no task
	said  string        // with the state
	begun bool
	err   error
}

func newAsking(task a2a.TaskID) *asking {
	a := &asking{known: make(chan struct{})}
	a.isOf(task)
	return a
}

// isOf takes note of the task, if it is one.
func (a *asking) isOf(task a2a.TaskID) {
	if a.task == "" && task != "" {
		a.task = task
		close(a.known)
	}
}

// await waits for the task to be known, within bounds: without its name it
// cannot be canceled.
func (a *asking) await() {
	select {
	case <-a.known:
	case <-time.After(cancelTimeout):
	}
}

func (a *asking) follow(event a2a.Event) {
	a.begun = true
	switch event := event.(type) {
	case *a2a.Task:
		a.isOf(event.ID)
		a.enter(event.Status)
	case *a2a.TaskStatusUpdateEvent:
		a.isOf(event.TaskID)
		a.enter(event.Status)
	}
}

func (a *asking) enter(status a2a.TaskStatus) { a.state, a.said = status.State, textOf(status.Message) }

// outcome says how it ended.
func (a *asking) outcome() error {
	switch {
	case a.err != nil:
		return fmt.Errorf("the answer broke off: %w", a.err)
	case !a.begun:
		return errors.New("the agent gave no answer")
	case a.state == "" || a.state == a2a.TaskStateCompleted:
		return nil
	case a.state == a2a.TaskStateInputRequired:
		fmt.Fprintf(os.Stderr, "plughost: the agent waits for an answer: --task %s\n", a.task)
		return exitError(exitWaiting)
	case a.state.Terminal():
		return fmt.Errorf("the task %s%s", stateName(a.state), withColon(a.said))
	default:
		return fmt.Errorf("the answer broke off: the task was %s", stateName(a.state))
	}
}

// cancel cancels the task, if there is one yet.
func (a *asking) cancel(ctx context.Context, client *a2aclient.Client) error {
	if a.task == "" || a.state.Terminal() {
		return errors.New("interrupted")
	}
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	if _, err := client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: a.task}); err != nil {
		return fmt.Errorf("interrupted, but the task could not be canceled: %w", err)
	}
	return errors.New("interrupted: the task was canceled")
}

// stateName is a state in words that fit a sentence.
func stateName(state a2a.TaskState) string {
	switch state {
	case a2a.TaskStateFailed:
		return "has failed"
	case a2a.TaskStateCanceled:
		return "was canceled"
	case a2a.TaskStateRejected:
		return "was rejected"
	}
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(string(state), "TASK_STATE_"), "_", " "))
}

func withColon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
