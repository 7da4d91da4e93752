package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/plughost/plughost/host/internal/config"
	"github.com/plughost/plughost/host/internal/supervise"
)

// While services die, come back, come and go, a call of a client of any revision is
// answered or refused, and in the end all is as it should be.
func TestStormOfRestartsLosesNobody(t *testing.T) {
	noGoroutineStays(t)
	all := []config.Service{mcpConfig("a"), mcpConfig("b"), mcpConfig("c")}
	f := newFront(t, all...)
	instance := func(name string) *fakeInstance {
		server := newServer("one")
		server.AddResource(&mcp.Resource{URI: "test://" + name, Name: name}, read(name))
		return newPlugin(t, server)
	}
	current := make(map[string]*fakeInstance)
	for _, name := range []string{"a", "b", "c"} {
		current[name] = instance(name)
		f.ready(name, current[name])
	}
	over := make(chan struct{})
	var clients sync.WaitGroup
	for n := range 6 {
		session := f.connect("/mcp", versions[n%len(versions)], nil)
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				name := string(rune('a' + i%3))
				_, err := call(t.Context(), session, name+"__one")
				if i%4 == 0 {
					_, err = session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "test://" + name})
				}
				var refused *jsonrpc.Error
				if err != nil && !errors.As(err, &refused) {
					t.Errorf("a call of %s: %v", name, err)
					return
				}
			}
		})
	}
	for i := range 30 {
		name := fmt.Sprintf("%c", 'a'+i%3)
		current[name].die()
		f.enter(name, supervise.Backoff, "")
		if name == "c" && i%2 == 0 {
			f.Configure(all[:2])
			f.enter("c", supervise.Stopped, "")
			f.change(config.KindMCP, "c", supervise.Status{State: supervise.Removed}, nil)
			f.Configure(all)
		}
		current[name] = instance(name)
		f.ready(name, current[name])
	}
	close(over)
	clients.Wait()
	for _, version := range versions {
		session := f.connect("/mcp", version, nil)
		for _, name := range []string{"a", "b", "c"} {
			if got, err := call(t.Context(), session, name+"__one"); got != "one" || err != nil {
				t.Errorf("%s: then %s: %q, error %v", version, name, got, err)
			}
		}
		_ = session.Close()
	}
	f.Close()
	http.DefaultClient.CloseIdleConnections()
}
