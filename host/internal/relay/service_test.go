package relay

import "testing"

// onlooker notes whether somebody else would still wait when it is told what a
// service has.
type onlooker struct {
	service *Service
	waits   []bool
}

func (*onlooker) connected(*backend)              {}
func (*onlooker) offered(*Service, features)      {}
func (o *onlooker) listed(s *Service, _ features) { o.waits = append(o.waits, !s.read.Load()) }

// Who asked before a join knew it would be told of what there is not.
func TestServiceIsReadWhenAllKnowWhatItHas(t *testing.T) {
	s := newTestService("a")
	defer s.Close()
	b := &backend{service: s}
	s.backend = b
	o := &onlooker{service: s}
	s.watch(o)
	s.has(b, features{})
	if len(o.waits) != 2 || !o.waits[1] || !s.read.Load() {
		t.Errorf("others wait while it is told %v, and then %v", o.waits, !s.read.Load())
	}
	s.Clear()
	if s.read.Load() {
		t.Error("what was cleared need not be read again")
	}
	s.has(&backend{service: s}, features{})
	if s.read.Load() {
		t.Error("what another instance has counts")
	}
}
