package relay

import (
	"strconv"
	"testing"
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
