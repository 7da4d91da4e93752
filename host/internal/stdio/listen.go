package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/shared/wire"
)

const (
	methodListen       = "subscriptions/listen"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
)

// listening is a client without a session that listens in the course of a
// request. It listens at the next host, too.
type listening struct {
	*session
	request wire.Message
	begun   bool // the client knows that it listens
}

// run listens until the server ends it, or there is no host any more.
func (l *listening) run(ctx context.Context, waiting func()) error {
	for {
		err := l.once(ctx, l.request, "", "", l.hear)
		waiting()
		if !l.lost(err) {
			return err
		}
		pause(ctx, listenDelay)
		if err := l.Await(ctx); err != nil {
			return err
		}
	}
}

// lost reports whether there was no host, or it ended.
func (l *listening) lost(err error) bool {
	var unsent *unsentError
	return errors.As(err, &unsent) || l.begun && errors.Is(err, errEnded)
}

// hear delivers what is heard. The client is told once that it listens, and then,
// whenever it does again, of all that may have changed meanwhile.
func (l *listening) hear(data []byte) {
	m, err := wire.Scan(data)
	if err != nil || string(m.Method) != methodAcknowledged {
		l.deliver(data)
		return
	}
	if !l.begun {
		l.begun = true
		l.deliver(data)
		return
	}
	var agreed struct {
		Notifications mcp.NotificationSubscriptions `json:"notifications"`
	}
	if json.Unmarshal(m.Bytes(m.Params), &agreed) != nil {
		return
	}
	wants := agreed.Notifications
	for list, wanted := range map[string]bool{"tools": wants.ToolsListChanged, "prompts": wants.PromptsListChanged, "resources": wants.ResourcesListChanged} {
		if wanted {
			l.changed(list+"/list_changed", "")
		}
	}
	for _, uri := range wants.ResourceSubscriptions {
		l.changed("resources/updated", uri)
	}
}

func (l *listening) changed(what, uri string) {
	var params bytes.Buffer
	if uri != "" {
		fmt.Fprintf(&params, `"uri":%s,`, jsonText(uri))
	}
	l.deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/%s","params":{%s"_meta":{%q:%s}}}`,
		what, params.Bytes(), mcp.MetaKeySubscriptionID, l.request.Bytes(l.request.ID)))
}
