package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	plughostv1 "github.com/plughost/plughost/shared/proto/plughost/v1"
	"github.com/plughost/plughost/shared/wire"
)

// A plugin may know only the revisions with sessions. A lane to one is a session
// that the relay has begun; most requests that stand alone mean in it what they
// always did.

// discoverTimeout bounds what a plugin has to say which revisions it speaks.
const discoverTimeout = 5 * time.Second

// standsAlone reports whether the instance takes requests without a session. It
// is asked once.
func (b *backend) standsAlone(ctx context.Context) (bool, error) {
	select {
	case b.asking <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-b.asking }()
	if b.alone != nil {
		return *b.alone, nil
	}
	if time.Since(b.askedAt) < discoverTimeout { // who waited meanwhile does not wait as long again
		return false, b.silent
	}
	alone, err := b.discover(ctx)
	switch {
	case err == nil:
		b.alone = &alone
	case ctx.Err() == nil:
		b.silent, b.askedAt = err, time.Now()
	}
	return alone, err
}

// discover asks the instance whether it takes requests without a session.
func (b *backend) discover(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, discoverTimeout, b.service.unavailable("it does not say which revisions it speaks"))
	defer cancel()
	l, err := b.open(ctx, nobody{})
	if err != nil {
		return false, err
	}
	defer l.cancel()
	answer, err := askFor(ctx, l, "server/discover", fmt.Sprintf(`{"_meta":{%q:%q,%q:{"name":"plughost","version":"1"},%q:{}}}`,
		metaVersion, firstStateless, mcp.MetaKeyClientInfo, mcp.MetaKeyClientCapabilities))
	var refused *pluginError
	switch {
	case errors.As(err, &refused):
		return false, nil
	case err != nil:
		return false, err
	}
	versions, err := answer.Find(answer.Result, "supportedVersions")
	if err != nil {
		return false, nil
	}
	for version := range answer.Elements(versions) {
		if text, _ := wire.Text(answer.Bytes(version)); string(text) == firstStateless {
			return true, nil
		}
	}
	return false, nil
}

// nobody is the owner of a link on which nothing is expected but answers.
type nobody struct{}

func (nobody) received(l *link, _ *plughostv1.Frame, m *wire.Message) {
	if m.Kind == wire.Request {
		l.refuse(m, wire.CodeMethodNotFound, noRequests)
	}
}

func (nobody) lost(*link) {}

// greet begins a session of the relay's own, and returns what the plugin says of
// itself.
func greet(ctx context.Context, l *link) (*wire.Message, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, restoreTimeout, errors.New("it does not answer"))
	defer cancel()
	answer, err := askFor(ctx, l, "initialize",
		fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"plughost","version":"1"}}`, revisions[len(revisions)-1]))
	if err != nil {
		return nil, err
	}
	return answer, l.send(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
}

// completed has the result of a request that stands alone say what results of
// such requests do.
func completed(method string, answer *wire.Message) *wire.Message {
	said, err := answer.Find(answer.Result, "resultType")
	if err != nil || said.Found() || answer.Raw[answer.Result.Start] != '{' {
		return answer
	}
	members := `"resultType":"complete"`
	if strings.HasSuffix(method, "/list") || method == "resources/read" {
		members += `,"ttlMs":0,"cacheScope":"private"`
	}
	with := answer.With(inside(answer.Result), joined(answer, answer.Result, []byte(members)))
	return &with
}
