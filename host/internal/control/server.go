package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
)

// Services is what the API steers; a *supervise.Manager.
type Services interface {
	Start(ctx context.Context, ref config.Ref) error
	Stop(ctx context.Context, ref config.Ref) error
	Restart(ctx context.Context, ref config.Ref) error
}

// Server serves the control API.
type Server struct {
	// Version is told in the header of each answer. It is set before Serve.
	Version string

	http   http.Server
	mux    *http.ServeMux
	routes []route
}

// route is an endpoint that docs/control-api.yaml describes.
type route struct {
	pattern    string   // method and path, as of http.ServeMux
	parameters []string // of the query
}

// versionHeader says in each answer which version the host is.
const versionHeader = "Plughost-Version"

// Listen opens the socket at path, in place of one that a host that is gone left
// there, for this process's user and the members of a group, or Nobody. The
// caller holds the installation's lock.
func Listen(path string, group int) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot open the control socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the control socket: %w", err)
	}
	if err := admit(path, group); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open the control socket: %w", err), listener.Close())
	}
	return doorkeeper{listener, group}, nil
}

// admit gives a socket its mode. To connect takes the right to write.
func admit(path string, group int) error {
	if group == Nobody {
		return os.Chmod(path, 0o600)
	}
	return errors.Join(os.Lchown(path, -1, group), os.Chmod(path, 0o660))
}

// StatusFunc says how the host is, and if usage is set also what its services
// take of the machine, which takes a look at each of their processes.
type StatusFunc func(ctx context.Context, usage bool) Status

// NewServer makes a server of the API. status is asked for each request.
func NewServer(services Services, status StatusFunc) *Server {
	s := &Server{mux: http.NewServeMux()}
	s.http = http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ConnContext: noteStranger}
	s.handle("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		usage, err := flag(r.URL.Query(), "usage", false)
		if err != nil {
			reply(w, http.StatusBadRequest, Error{Message: err.Error()})
			return
		}
		reply(w, http.StatusOK, status(r.Context(), usage))
	}, "usage")
	s.handle("POST /v1/services/{kind}/{name}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		serveVerb(w, r, services, status)
	}, "wait")
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Version != "" {
		w.Header().Set(versionHeader, s.Version)
	}
	if !refuseStranger(w, r) {
		s.mux.ServeHTTP(w, r)
	}
}

// serveVerb does what is asked of a service. The answer comes when that is done
// unless wait is false, with which it comes when it is begun.
func serveVerb(w http.ResponseWriter, r *http.Request, services Services, status StatusFunc) {
	verbs := map[Verb]func(context.Context, config.Ref) error{
		Start:   services.Start,
		Stop:    services.Stop,
		Restart: services.Restart,
	}
	verb, ok := verbs[Verb(r.PathValue("verb"))]
	if !ok {
		reply(w, http.StatusNotFound, Error{Message: fmt.Sprintf("there is no verb %q: use start, stop or restart", r.PathValue("verb"))})
		return
	}
	wait, err := flag(r.URL.Query(), "wait", true)
	if err != nil {
		reply(w, http.StatusBadRequest, Error{Message: err.Error()})
		return
	}
	ref := config.Ref{Kind: config.Kind(r.PathValue("kind")), Name: r.PathValue("name")}
	switch {
	case wait:
		err = verb(r.Context(), ref)
	case !slices.ContainsFunc(status(r.Context(), false).Services, func(s ServiceStatus) bool { return s.Service == ref }):
		err = &supervise.UnknownServiceError{Ref: ref}
	default:
		// What becomes of it is in the service's state.
		go func() { _ = verb(context.WithoutCancel(r.Context()), ref) }()
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if err != nil {
		reply(w, statusCode(err), Error{Message: err.Error()})
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// handle adds an endpoint. Requests with other parameters than those are
// refused, since they may have meant something.
func (s *Server) handle(pattern string, handler http.HandlerFunc, parameters ...string) {
	s.routes = append(s.routes, route{pattern, parameters})
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		for name := range r.URL.Query() {
			if !slices.Contains(parameters, name) {
				reply(w, http.StatusBadRequest, Error{Message: fmt.Sprintf("there is no parameter %q here", name)})
				return
			}
		}
		handler(w, r)
	})
}

// Serve answers requests until Close.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown removes the socket and waits for the requests under way until ctx
// ends.
func (s *Server) Shutdown(ctx context.Context) error {
	return errors.Join(s.http.Shutdown(ctx), s.http.Close())
}

func statusCode(err error) int {
	var unknown *supervise.UnknownServiceError
	switch {
	case errors.As(err, &unknown):
		return http.StatusNotFound
	case errors.Is(err, supervise.ErrShuttingDown):
		return http.StatusServiceUnavailable
	default:
		return http.StatusConflict
	}
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
