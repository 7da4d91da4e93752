package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/events"
)

// keepAlive is how long a stream of events is silent at the most: a comment
// shows that the other side is there.
const keepAlive = 15 * time.Second

// EventQuery says which events are wanted.
type EventQuery struct {
	// Services leaves out the events of others, and those of no service,
	// unless it is empty.
	Services []config.Ref
	// After is the id of the last event that is known already, or empty.
	After string
	// Follow asks for what will happen, too.
	Follow bool
}

// HandleEvents has the server answer GET /v1/events with the hub's events as a
// stream of server-sent events: first those that are remembered, or those after
// the header Last-Event-ID, then what happens. The type of each is that of the
// events.Event that is its data, in JSON. Two parameters narrow it: service, as
// in mcp.clock and any number of times, and follow=false, which ends the stream
// after what is remembered. It is called before Serve.
func (s *Server) HandleEvents(hub *events.Hub) { s.handleEvents(hub, keepAlive) }

func (s *Server) handleEvents(hub *events.Hub, keepAlive time.Duration) {
	s.handle("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		follow, err := flag(r.URL.Query(), "follow", true)
		if err != nil {
			reply(w, http.StatusBadRequest, Error{Message: err.Error()})
			return
		}
		services := r.URL.Query()["service"]
		subscription := hub.Subscribe(r.Header.Get("Last-Event-ID"))
		defer subscription.Close()
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		stream := http.NewResponseController(w)
		next := func() (events.Event, error) {
			if event, ok := subscription.Ready(); ok {
				return event, nil
			}
			if !follow {
				return events.Event{}, io.EOF
			}
			// Whoever reads has all that there is.
			if err := stream.Flush(); err != nil {
				return events.Event{}, err
			}
			ctx, cancel := context.WithTimeout(r.Context(), keepAlive)
			defer cancel()
			return subscription.Next(ctx)
		}
		for {
			event, err := next()
			switch {
			case err == nil && len(services) > 0 && event.Type != events.Lost && !slices.Contains(services, event.Service):
				continue
			case err == nil:
				err = writeEvent(w, event)
			case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil:
				_, err = io.WriteString(w, ": nothing new\n\n")
			}
			if err != nil {
				return // it is over, or nobody listens
			}
		}
	}, "service", "follow")
}

func writeEvent(w io.Writer, event events.Event) error {
	data, err := json.Marshal(event)
	if err != nil {
		return err
	}
	if event.ID != "" {
		_, err = fmt.Fprintf(w, "id: %s\n", event.ID)
	}
	if err == nil {
		_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event.Type, data)
	}
	return err
}

// flag reads a parameter that is true or false.
func flag(query url.Values, name string, fallback bool) (bool, error) {
	if !query.Has(name) {
		return fallback, nil
	}
	value, err := strconv.ParseBool(query.Get(name))
	if err != nil {
		return false, fmt.Errorf("the parameter %s can be true or false, but not %q", name, query.Get(name))
	}
	return value, nil
}

// Events calls yield with the events that the query asks for, until there are
// no more, or yield returns an error, which is returned. Who follows gets nil
// when the host ends.
func (c *Client) Events(ctx context.Context, query EventQuery, yield func(events.Event) error) error {
	path := "/v1/events?" + url.Values{
		"service": names(query.Services),
		"follow":  {strconv.FormatBool(query.Follow)},
	}.Encode()
	response, err := c.open(ctx, http.MethodGet, path, http.Header{"Last-Event-Id": {query.After}}, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for line, err := range bodyLines(response.Body) {
		if err != nil {
			return err
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue // the data has all of it
		}
		var event events.Event
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return fmt.Errorf("cannot read the host's answer: %w", err)
		}
		if err := yield(event); err != nil {
			return err
		}
	}
	return nil
}

func names(refs []config.Ref) []string {
	all := make([]string, len(refs))
	for i, ref := range refs {
		all[i] = ref.String()
	}
	return all
}

// bodyLines are the lines of an answer, of whatever length, without their ends.
func bodyLines(body io.Reader) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		reader := bufio.NewReader(body)
		for {
			line, err := reader.ReadString('\n')
			if line != "" && err == nil && !yield(strings.TrimSuffix(line, "\n"), nil) {
				return
			}
			switch {
			case err == io.EOF:
				return
			case err != nil:
				yield("", fmt.Errorf("the host's answer was cut off: %w", err))
				return
			}
		}
	}
}
