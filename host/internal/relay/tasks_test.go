package relay

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/plughost/plughost/shared/wire"
)

func TestSessionForgetsItsOldestTask(t *testing.T) {
	a, b := newTestService("a"), newTestService("b")
	var known tasks
	for i := range maxTasks {
		known.add(strconv.Itoa(i), a)
	}
	known.add("1", b)
	known.add("new", a)
	if known.service["0"] != nil || known.service["1"] != b || known.service["new"] != a {
		t.Error("not the oldest, and it alone, is forgotten")
	}
	known.forget(func(s *Service) bool { return s == a })
	if len(known.ids) != 1 || len(known.service) != 1 || known.service["1"] != b {
		t.Errorf("left are %v", known.ids)
	}
}

// callsOnly are grants of the tools of some services, as agents have them.
type callsOnly struct{ reaches }

func (callsOnly) Service(string) bool { return false }

func TestSessionKnowsTheTasksOfWhatItReaches(t *testing.T) {
	j := NewJoin("join", "1", Options{})
	defer j.Close()
	a, b := newTestService("a"), newTestService("b")
	j.Arrange([]*Service{a, b})
	s := newTestSession(t, j, callsOnly{"ab"}, a, b)
	learn := func(service *Service, id string) {
		t.Helper()
		answer, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"taskId":%q}}`, id))
		if err != nil {
			t.Fatal(err)
		}
		s.learnTask(service, &answer, answer.Result, "taskId")
	}
	learn(a, "of a")
	learn(b, "of b")
	learn(a, strings.Repeat("x", maxTaskID+1))
	s.grant(callsOnly{"a"})
	learn(b, "late of b")
	if got := s.memory.tasks.ids; len(got) != 1 || got[0] != "of a" {
		t.Errorf("the session knows the tasks %.80q", got)
	}
}
