package proxy

import (
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

// headerHaste is how soon after connecting a member must have hung up for the
// PROXY header to be suspected.
const headerHaste = time.Second

// connected notes that traffic reached a member.
func (s *service) connected(m *member) {
	if m.health.refuse("") {
		s.proxy.news.add(s.owner)
	}
}

// connectFailed notes that traffic did not reach a member. What this machine
// lacks (ports, file descriptors) is not held against the member.
func (s *service) connectFailed(m *member, err error) {
	switch netio.CauseOf(err) {
	case netio.AddressAbsent:
		s.counters.outOfPorts.Add(1)
		return
	case netio.OutOfFiles:
		return
	default:
	}
	cause := causeText(err, s.snapshot.Load().timeouts.connect)
	if k := m.checker.Load(); k != nil {
		k.refused(m, cause)
	}
	if m.health.refuse(cause) {
		s.proxy.news.add(s.owner)
	}
	s.strike(m, time.Now())
}

// judge looks at a connection that has ended for the sign of a member that
// does not expect PROXY protocol: it hung up at once, without a byte, and the
// client had not.
func (s *service) judge(x *session) {
	if x.rules.listener.Pool.ProxyProtocol == model.ProxyNone {
		if x.member.health.judgeHeader(false) {
			s.proxy.news.add(s.owner)
		}
		return
	}
	answered := x.relay.received.Load() > 0
	dropped := !answered && x.relay.memberFirst.Load() && x.relay.lasted < headerHaste
	if !answered && !dropped {
		return // says nothing
	}
	if x.member.health.judgeHeader(dropped) {
		s.proxy.news.add(s.owner)
	}
}
