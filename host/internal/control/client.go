package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/shared/resend"
)

// ErrNoHost says that no host is running.
var ErrNoHost = errors.New("no plughost host is running there")

// defaultPatience is enough for a host on a machine that is very busy.
const defaultPatience = 10 * time.Second

// SilentError says that a host listens, and does not answer.
type SilentError struct{ Patience time.Duration }

func (e *SilentError) Error() string {
	return fmt.Sprintf("the host has not answered within %v: it may be suspended, or so short of something that it cannot; its log may tell", e.Patience)
}

// Client speaks to a running host.
type Client struct {
	// Patience is how long the host may take to say what its state is. Nothing
	// else is asked before it has done so once, as most else may take any time.
	// The default is ten seconds.
	Patience time.Duration

	// Version is that of the program, and OtherVersion is called with that of
	// the host when the first answer of one shows that they differ. Both may be
	// left out.
	Version      string
	OtherVersion func(host string)

	http     http.Client
	told     sync.Once
	answered atomic.Bool
}

// compareVersions tells of a host of another version.
func (c *Client) compareVersions(host string) {
	if c.OtherVersion != nil && host != "" && host != c.Version {
		c.told.Do(func() { c.OtherVersion(host) })
	}
}

// NewClient makes a client of the host behind the socket at path.
func NewClient(path string) *Client {
	return &Client{http: http.Client{Transport: &resend.Transport{Next: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", path)
		},
	}}}}
}

// Status asks for the state of the host and its services.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return c.state(ctx, "/v1/status")
}

// Usage asks for that, and for what the services take of the machine.
func (c *Client) Usage(ctx context.Context) (Status, error) {
	return c.state(ctx, "/v1/status?usage=true")
}

// state asks for what every host that is well answers soon.
func (c *Client) state(ctx context.Context, path string) (status Status, err error) {
	silent := &SilentError{cmp.Or(c.Patience, defaultPatience)}
	ctx, cancel := context.WithTimeoutCause(ctx, silent.Patience, silent)
	defer cancel()
	response, err := c.request(ctx, http.MethodGet, path, nil, nil)
	if err == nil {
		c.answered.Store(true)
		err = read(response, &status)
	}
	if err != nil && errors.Is(context.Cause(ctx), silent) {
		return status, silent
	}
	return status, err
}

// Do asks one thing of a service, and returns when it is done.
func (c *Client) Do(ctx context.Context, ref config.Ref, verb Verb) error {
	return c.do(ctx, http.MethodPost, verbPath(ref, verb), nil)
}

// Request asks one thing of a service, and returns at once.
func (c *Client) Request(ctx context.Context, ref config.Ref, verb Verb) error {
	return c.do(ctx, http.MethodPost, verbPath(ref, verb)+"?wait=false", nil)
}

func verbPath(ref config.Ref, verb Verb) string {
	return "/v1/services/" + url.PathEscape(string(ref.Kind)) + "/" + url.PathEscape(ref.Name) + "/" + string(verb)
}

// open makes a request of a host that has answered before, or does now. The answer
// is one that says that all is well.
func (c *Client) open(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
	if !c.answered.Load() {
		if _, err := c.Status(ctx); err != nil {
			return nil, err
		}
	}
	return c.request(ctx, method, path, header, body)
}

// request is open without a look at the host before.
func (c *Client) request(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://plughost"+path, body)
	if err != nil {
		return nil, err
	}
	if header != nil {
		request.Header = header
	}
	response, err := c.http.Do(request)
	if err != nil {
		// Without the method and the made-up URL of url.Error.
		var op *net.OpError
		switch {
		case !errors.As(err, &op):
			return nil, fmt.Errorf("cannot reach the host: %w", err)
		case op.Op == "dial" && (errors.Is(op, fs.ErrNotExist) || errors.Is(op, connRefused)):
			return nil, fmt.Errorf("%w (%w)", ErrNoHost, op.Err)
		case op.Op == "dial" && errors.Is(op, fs.ErrPermission):
			return nil, fmt.Errorf("cannot reach the host, which is another user's: %s: %w", whoMay, op)
		default:
			return nil, fmt.Errorf("cannot reach the host: %w", op)
		}
	}
	c.compareVersions(response.Header.Get(versionHeader))
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close()
	var message Error
	if err := json.NewDecoder(response.Body).Decode(&message); err != nil || message.Message == "" {
		return nil, fmt.Errorf("the host answered %s", response.Status)
	}
	if message.Diagnostics != "" {
		return nil, &RefusedError{Message: message.Message, Diagnostics: message.Diagnostics}
	}
	return nil, errors.New(message.Message)
}

func (c *Client) do(ctx context.Context, method, path string, answer any) error {
	return c.send(ctx, method, path, nil, answer)
}

func (c *Client) send(ctx context.Context, method, path string, body io.Reader, answer any) error {
	response, err := c.open(ctx, method, path, nil, body)
	if err != nil {
		return err
	}
	return read(response, answer)
}

// read reads an answer to its end.
func read(response *http.Response, answer any) error {
	defer response.Body.Close()
	if answer == nil {
		_, err := io.Copy(io.Discard, response.Body)
		return err
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("cannot read the host's answer: %w", err)
	}
	return nil
}
