package control

import (
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

	"github.com/plughost/plughost/host/internal/config"
)

// ErrNoHost says that no host is running.
var ErrNoHost = errors.New("no plughost host is running there")

// Client speaks to a running host.
type Client struct {
	// Version is that of the program, and OtherVersion is called with that of
	// the host when the first answer of one shows that they differ. Both may be
	// left out.
	Version      string
	OtherVersion func(host string)

	http http.Client
	told sync.Once
}

// compareVersions tells of a host of another version.
func (c *Client) compareVersions(host string) {
	if c.OtherVersion != nil && host != "" && host != c.Version {
		c.told.Do(func() { c.OtherVersion(host) })
	}
}

// NewClient makes a client of the host behind the socket at path.
func NewClient(path string) *Client {
	return &Client{http: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", path)
		},
	}}}
}

// Status asks for the state of the host and its services.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var status Status
	err := c.do(ctx, http.MethodGet, "/v1/status", &status)
	return status, err
}

// Usage asks for that, and for what the services take of the machine.
func (c *Client) Usage(ctx context.Context) (Status, error) {
	var status Status
	err := c.do(ctx, http.MethodGet, "/v1/status?usage=true", &status)
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

// open makes a request. The answer is one that says that all is well.
func (c *Client) open(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
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
