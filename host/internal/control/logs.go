package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/logs"
)

// Logs is what a host knows of the logs of its services.
type Logs interface {
	// ReadLogs hands over what the query asks for of the logs of services and,
	// if follow is set, what comes after that; with no service named, of all.
	// For one that there is not the error is a
	// *supervise.UnknownServiceError.
	ReadLogs(ctx context.Context, services []config.Ref, query logs.Query, follow bool, yield func([]logs.Entry) error) error
}

// HandleLogs has the server answer GET /v1/logs: a logs.Entry in JSON a line,
// those of several services merged by their time. Its parameters are service,
// as in mcp.clock and any number of times, since, a time as in RFC 3339, tail,
// a number of lines, and follow=true, with which the answer goes on as the logs
// grow. It is called before Serve.
func (s *Server) HandleLogs(l Logs) {
	s.handle("GET /v1/logs", func(w http.ResponseWriter, r *http.Request) {
		services, query, follow, err := logQuery(r.URL.Query())
		if err != nil {
			reply(w, http.StatusBadRequest, Error{Message: err.Error()})
			return
		}
		begun := false
		stream, encoder := http.NewResponseController(w), json.NewEncoder(w)
		begin := func() {
			if !begun {
				begun = true
				w.Header().Set("Content-Type", "application/jsonl")
				w.Header().Set("Cache-Control", "no-store")
			}
		}
		err = l.ReadLogs(r.Context(), services, query, follow, func(entries []logs.Entry) error {
			begin()
			for _, entry := range entries {
				if err := encoder.Encode(entry); err != nil {
					return err
				}
			}
			return stream.Flush()
		})
		if err != nil && !begun {
			reply(w, statusCode(err), Error{Message: err.Error()})
			return
		}
		begin()
	}, "service", "since", "tail", "follow")
}

func logQuery(values url.Values) (services []config.Ref, query logs.Query, follow bool, err error) {
	query = logs.Everything()
	for _, name := range values["service"] {
		kind, name, ok := strings.Cut(name, ".")
		if !ok {
			return nil, query, false, fmt.Errorf("the parameter service is a kind and a name, as in mcp.clock, but not %q", kind)
		}
		services = append(services, config.Ref{Kind: config.Kind(kind), Name: name})
	}
	if values.Has("since") {
		if query.Since, err = time.Parse(time.RFC3339, values.Get("since")); err != nil {
			return nil, query, false, fmt.Errorf("the parameter since is a time as in RFC 3339, but not %q", values.Get("since"))
		}
	}
	if values.Has("tail") {
		if query.Tail, err = strconv.Atoi(values.Get("tail")); err != nil || query.Tail < 0 {
			return nil, query, false, fmt.Errorf("the parameter tail is a number of lines, but not %q", values.Get("tail"))
		}
	}
	follow, err = flag(values, "follow", false)
	return services, query, follow, err
}

// Logs calls yield with each entry of the logs of services that the query asks
// for, until there are no more, or yield returns an error, which is returned.
// Who follows gets nil when the host ends.
func (c *Client) Logs(ctx context.Context, services []config.Ref, query logs.Query, follow bool, yield func(logs.Entry) error) error {
	values := url.Values{"service": names(services), "follow": {strconv.FormatBool(follow)}}
	if !query.Since.IsZero() {
		values.Set("since", query.Since.Format(time.RFC3339Nano))
	}
	if query.Tail >= 0 {
		values.Set("tail", strconv.Itoa(query.Tail))
	}
	response, err := c.open(ctx, http.MethodGet, "/v1/logs?"+values.Encode(), nil, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for line, err := range bodyLines(response.Body) {
		if err != nil {
			return err
		}
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.UseNumber() // fields stay as they were written
		var entry logs.Entry
		if err := decoder.Decode(&entry); err != nil {
			return fmt.Errorf("cannot read the host's answer: %w", err)
		}
		if err := yield(entry); err != nil {
			return err
		}
	}
	return nil
}
