package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plughost/plughost/host/internal/supervise"
)

// tasked makes a plugin whose tool x begins the task that has an id, and which
// lists it and others.
func tasked(t *testing.T, id string, others ...string) *fakeInstance {
	t.Helper()
	ids := append([]string{id}, others...)
	return unruly(t, func(_ frames, m message) string {
		switch m.Method {
		case "initialize":
			return strings.Replace(initialized, `"tools":{}`, `"tools":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`, 1)
		case "tools/list":
			return `"result":{"tools":[{"name":"x","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`
		case "tools/call":
			return fmt.Sprintf(`"result":{"task":{"taskId":%q,"status":"working"}}`, id)
		case "tasks/get", "tasks/result", "tasks/cancel":
			return fmt.Sprintf(`"result":{"of":"%s of %s for %s"}`, m.Method, id, m.Params.TaskID)
		case "tasks/list": // one on each page
			page := 0
			if m.Params.Cursor != "" {
				_, _ = fmt.Sscan(m.Params.Cursor, &page)
			}
			next := ""
			if page+1 < len(ids) {
				next = fmt.Sprintf(`,"nextCursor":"%d"`, page+1)
			}
			return fmt.Sprintf(`"result":{"tasks":[{"taskId":%q}]%s}`, ids[page], next)
		}
		return methodNotFound
	})
}

// begin has a task begin.
func (c *rawClient) begin(tool string) {
	c.t.Helper()
	if a := c.ask("tools/call", fmt.Sprintf(`"name":%q,"task":{"ttl":60000}`, tool)); !strings.Contains(a.body, "taskId") {
		c.t.Fatalf("%s: %s", tool, a.body)
	}
}

func (c *rawClient) expectTask(method, id, want string) {
	c.t.Helper()
	if a := c.ask(method, fmt.Sprintf(`"taskId":%q`, id)); !strings.Contains(a.body, want) {
		c.t.Errorf("%s of %s: %s, want %q", method, id, a.body, want)
	}
}

const noTask = `there is no task`

func TestTaskIsFoundWhereItWasBegun(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"))
	f.ready("a", tasked(t, "of a"))
	f.ready("b", tasked(t, "of b"))
	c := f.openAt("/mcp", nil)
	c.expectTask("tasks/get", "of a", noTask)
	c.begin("a__x")
	c.begin("b__x")
	for _, id := range []string{"of a", "of b"} {
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
			c.expectTask(method, id, fmt.Sprintf("%s of %s for %s", method, id, id))
		}
	}
	f.openAt("/mcp", nil).expectTask("tasks/result", "of a", noTask)

	f.enter("a", supervise.Stopped, "")
	f.enter("a", supervise.Removed, "")
	c.expectTask("tasks/get", "of a", noTask)
	c.expectTask("tasks/get", "of b", "tasks/get of of b")
}

func TestTasksOfAllServicesAreListed(t *testing.T) {
	f := newFront(t, mcpConfig("a"), mcpConfig("b"), mcpConfig("none"))
	f.ready("a", tasked(t, "of a", "more of a"))
	f.ready("b", tasked(t, "of b"))
	f.ready("none", newPlugin(t, newServer("one")))
	c := f.openAt("/mcp", nil)
	list := func(cursor string) rawAnswer {
		params := ""
		if cursor != "" {
			params = fmt.Sprintf(`"cursor":%q`, cursor)
		}
		return c.ask("tasks/list", params)
	}
	expect := func(cursor, want string) {
		t.Helper()
		if a := list(cursor); !strings.HasSuffix(a.body, `"result":`+want+"}") {
			t.Errorf("at the cursor %q: %s, want %s", cursor, a.body, want)
		}
	}
	expect("", `{"tasks":[]}`)
	c.ask("tools/call", `"name":"none__one"`)
	expect("", `{"tasks":[]}`)
	c.begin("a__x")
	c.begin("b__x")
	expect("", `{"tasks":[{"taskId":"of a"}],"nextCursor":"a 1"}`)
	expect("a 1", `{"tasks":[{"taskId":"more of a"}],"nextCursor":"b"}`)
	expect("b", `{"tasks":[{"taskId":"of b"}]}`)
	c.expectTask("tasks/get", "more of a", "tasks/get of of a for more of a")
	if a := list("none"); !strings.Contains(a.body, "no page") {
		t.Errorf("at a cursor of nobody: %s", a.body)
	}
}

// Only one revision with sessions has tasks, and the gateway knows those of
// sessions only.
func TestTasksAreOfferedToWhoKnowsThem(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	f.ready("a", tasked(t, "of a"))
	c := f.openAt("/mcp", nil)
	for version, want := range map[string]bool{"2025-11-25": true, "2025-06-18": false} {
		first := &rawClient{t: t, url: f.url + "/mcp"}
		a := first.post(strings.Replace(rawInitialize, "2025-11-25", version, 1))
		if got := strings.Contains(a.body, `"tasks":{"cancel":{},"list":{},"requests":{"tools":{"call":{}}}}`); got != want {
			t.Errorf("%s: %s", version, a.body)
		}
	}
	if a := c.ask("tools/list", ""); !strings.Contains(a.body, `"execution":{"taskSupport":"required"}`) {
		t.Error(a.body)
	}
	alone := f.aloneAt("/mcp")
	if a := alone.ask("tasks/get", `"taskId":"of a"`); !strings.Contains(a.body, "-32601") {
		t.Errorf("without a session: %s", a.body)
	}
	if a := alone.ask("server/discover", ""); strings.Contains(a.body, "tasks") {
		t.Errorf("without a session: %s", a.body)
	}
}

// What a caller may reach is looked at when it asks, and its task stays its own as
// long as the service is within reach, for whatever.
func TestTaskIsReachedAsItsServiceIs(t *testing.T) {
	f := newFront(t, mcpConfig("a"))
	f.ready("a", tasked(t, "of a"))
	c, change := f.changing(only("*/*"))
	c.begin("a__x")
	change(only("a/other"))
	c.expectTask("tasks/get", "of a", "tasks/get of of a")
	change(only("b/*"))
	c.expectTask("tasks/result", "of a", noTask)
	change(only("*/*"))
	c.expectTask("tasks/result", "of a", noTask)
}
