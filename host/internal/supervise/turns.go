package supervise

import (
	"fmt"
	"slices"
)

// LimitStarts has at most n services start at once; 0 means any number. It is
// called before Run; later Apply sets it.
func (m *Manager) LimitStarts(n int) { m.startLimit = n }

// hindrance says what a service must wait for before it can start, or nothing:
// a dependency, or a port that another still has.
func (m *Manager) hindrance(s *service) string {
	if missing := m.missingDependency(s); missing != nil {
		return waitsFor(missing)
	}
	if holder := m.portHolder(s); holder != nil {
		return fmt.Sprintf("waits for port %d, which %s has until it is stopped", s.conf.Port, holder.conf.Ref())
	}
	return ""
}

// portHolder returns another service that gives up the port that s is to have,
// and has not yet. Whoever keeps it (something is left of it that cannot be
// ended) is not waited for: the start says who has the port.
func (m *Manager) portHolder(s *service) *service {
	if s.conf.Port == 0 {
		return nil
	}
	for _, other := range m.services {
		if other != s && !other.atRest() && other.inUse() && other.port() == s.conf.Port {
			return other
		}
	}
	return nil
}

// inUse reports whether an instance of the service is or may be there.
func (s *service) inUse() bool { return s.launching || s.running != nil }

// port is the one that the instance has, if there is one, or else the one that
// the next will have.
func (s *service) port() int {
	if s.moved {
		return s.movedFrom
	}
	return s.conf.Port
}

// admit reports whether a service that nothing hinders may start at once. If as
// many are starting as may, it is given its turn when one of them is through.
func (m *Manager) admit(s *service) bool {
	if m.startLimit == 0 || !s.queued && m.launching+len(m.queue) < m.startLimit {
		return true
	}
	if !s.queued {
		s.queued = true
		m.queue = append(m.queue, s)
	}
	return false
}

// nextTurns starts those whose turn has come.
func (m *Manager) nextTurns() {
	for len(m.queue) > 0 && (m.startLimit == 0 || m.launching < m.startLimit) {
		s := m.queue[0]
		m.queue[0].queued = false
		m.queue = m.queue[1:]
		if s.state == Waiting && m.hindrance(s) == "" {
			s.launch("it is its turn")
		}
	}
}

// leaveQueue takes a service that does not wait any more out of the queue.
func (s *service) leaveQueue() {
	if s.queued {
		s.queued = false
		s.m.queue = slices.DeleteFunc(s.m.queue, func(other *service) bool { return other == s })
	}
}

// waitingFor says what a waiting service waits for, or nothing if that has come.
func (s *service) waitingFor() string {
	if s.queued {
		return fmt.Sprintf("waits for its turn: %d services are starting, and start_limit is %d", s.m.launching, s.m.startLimit)
	}
	return s.m.hindrance(s)
}

// settled is called when a launch or the end of an instance is over: others may
// have waited for a port, or for their turn.
func (m *Manager) settled() {
	if m.closing {
		return
	}
	for _, s := range m.services {
		if s.state == Waiting && s.conf.Port != 0 && !s.queued && m.hindrance(s) == "" {
			s.begin("its port is free")
		}
	}
	m.nextTurns()
}
