package proxy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// service is one listener of one owner, at all its addresses.
type service struct {
	proxy    *Proxy
	owner    model.Key
	port     model.Port
	gate     *gate
	counters counters
	snapshot atomic.Pointer[snapshot]

	// Guarded by the proxy's lock.
	sockets map[netip.Addr]*socket
	failed  []model.PortError
	retryAt time.Time

	// mu guards what choosing a member reads and writes.
	mu       sync.Mutex
	picker   picker
	affinity affinity
	// members are all that have a link or are in the snapshot.
	members map[netip.AddrPort]*member
	scratch []candidate
	started bool

	brake brake
}

// snapshot is everything a connection needs to know of its listener. It never
// changes: a new connection sees either all of an update or nothing.
type snapshot struct {
	listener model.Listener
	timeouts timeouts
	members  []candidate
	notes    []model.PortError
}

// candidate is a member with the weight it has in a snapshot, or that times its
// share where it is about to be chosen.
type candidate struct {
	*member
	weight int
}

// timeouts are a listener's time-outs with Octavia's and the proxy's defaults
// filled in. The one of inspection has no effect on a listener without content
// rules. drain is negative for cutting at once.
type timeouts struct {
	client, connect, member, idle, drain time.Duration
}

func newService(p *Proxy, owner model.Key, l model.Listener) *service {
	return &service{
		proxy: p, owner: owner, port: l.Port, gate: newGate(),
		sockets: map[netip.Addr]*socket{}, members: map[netip.AddrPort]*member{},
	}
}

// apply makes a new snapshot. Members keep their links, health and position.
func (s *service) apply(l model.Listener) {
	next := &snapshot{listener: l}
	next.timeouts, next.notes = resolveTimeouts(l, s.proxy.cfg)
	chosen, known := newPicker(l.Pool.Algorithm)
	if !known {
		next.notes = append(next.notes, algorithmNote(l))
	}
	if l.Pool.ProxyProtocol == model.ProxyV1 && l.Port.Protocol == model.UDP {
		next.notes = append(next.notes, proxyProtocolNote(l.Port))
	}
	if l.Pool.ProxyProtocol == model.ProxyV1 && l.Pool.UniqueID {
		next.notes = append(next.notes, uniqueIDNote(l.Port))
	}
	checks, notes := resolveMonitor(l)
	next.notes = append(next.notes, notes...)
	limit := 0 // none; so are -1 and 0, as in HAProxy
	if l.ConnectionLimit != nil {
		limit = max(*l.ConnectionLimit, 0)
	}
	s.gate.setLimit(limit, l.LimitMode == model.LimitRefuse)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.enlist(next, time.Now())
	s.picker = chosen
	s.affinity.lifetime = l.Pool.Affinity
	before := s.snapshot.Swap(next)
	if before != nil && before.timeouts.idle != next.timeouts.idle {
		s.wakeFlows()
	}
	if !s.started {
		s.started = true
		s.start(next)
	}
	s.check(next, checks)
}

// enlist fills the snapshot's members from those that are known, and begins or
// ends drains.
func (s *service) enlist(next *snapshot, now time.Time) {
	for _, m := range next.listener.Pool.Members {
		known := s.members[m.Address]
		if known == nil {
			known = newMember(m.Address)
			s.members[m.Address] = known
			if s.started && next.listener.Pool.Algorithm == model.LeastConnections {
				known.health.warm() // it has no connection yet, so it would get all new ones
			}
		}
		known.present = true
		next.members = append(next.members, candidate{known, m.Weight})
		if m.Weight > 0 {
			known.links.keep()
		} else {
			known.links.drain(next.timeouts.drain, now)
		}
	}
	for address, m := range s.members {
		if next.has(address) {
			m.removed.Store(false)
			continue
		}
		m.removed.Store(true)
		m.present = false
		m.links.drain(next.timeouts.drain, now)
	}
}

func (n *snapshot) has(address netip.AddrPort) bool {
	return slices.ContainsFunc(n.members, func(m candidate) bool { return m.address == address })
}

// start moves round robin to a random position, so that many listeners do not
// all begin with their first member.
func (s *service) start(first *snapshot) {
	const most = 1024
	usable := s.usable(first, nil, time.Now())
	if len(usable) == 0 {
		return
	}
	total := 0
	for _, m := range usable {
		total += m.weight
	}
	var r roundRobin
	for range s.proxy.cfg.Random() % uint64(min(total, most)) {
		r.pick(usable, netip.AddrPort{})
	}
}

// choose picks a member for a client and makes x a link of it; nil: there is
// none. Members in tried are out.
func (s *service) choose(client netip.AddrPort, tried []*member, x link) *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	usable := s.usable(s.snapshot.Load(), tried, now)
	if len(usable) == 0 {
		return nil
	}
	m := s.affinity.find(client.Addr(), usable, now)
	if m == nil {
		m = s.picker.pick(usable, client)
	}
	s.affinity.remember(client.Addr(), m, now)
	m.links.add(x)
	m.total.Add(1)
	return m
}

// usable returns the members that may get new traffic, with their share: those
// with a weight that are neither down nor taken out. When all others are gone,
// those that were taken out are used; and when all are down by their checks,
// they are used all the same (fail open): checks may be wrong, an outage is
// certain.
func (s *service) usable(n *snapshot, tried []*member, now time.Time) []candidate {
	slowStart := s.proxy.cfg.SlowStart
	if n.hashes() {
		slowStart = 0
	}
	usable, enough := s.scratch[:0], n.enough(tried)
	for _, m := range n.members {
		if m.weight > 0 && m.health.standing() >= enough && !slices.Contains(tried, m.member) {
			usable = append(usable, candidate{m.member, m.weight * m.health.share(slowStart, now)})
		}
	}
	s.scratch = usable
	return usable
}

// enough returns the standing that a member needs to get new traffic. Those that
// have just been tried count as well before the ones that are down are used.
func (n *snapshot) enough(tried []*member) standing {
	best := down
	for _, m := range n.members {
		if m.weight == 0 {
			continue
		}
		switch at := m.health.standing(); {
		case at == serving && !slices.Contains(tried, m.member):
			return serving
		case at > down:
			best = ejected
		}
	}
	return best
}

// hashes tells whether members are chosen by the client's address.
func (n *snapshot) hashes() bool {
	a := n.listener.Pool.Algorithm
	return a == model.SourceIP || a == model.SourceIPPort
}

func (s *service) keepHouse(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.affinity.expire(now)
	for address, m := range s.members {
		if m.health.readmit(now) {
			s.proxy.news.add(s.owner)
		}
		if empty := m.links.cutIfDue(now, ReasonDrain); empty && !m.present {
			delete(s.members, address)
		}
	}
	for _, sock := range s.sockets {
		sock.keepHouse(now)
	}
}

// fault returns everything that is wrong with the port, as one error. The
// caller holds the proxy's lock.
func (s *service) fault() model.PortError {
	faults := append([]model.PortError{}, s.failed...)
	return joined(s.port, append(faults, s.snapshot.Load().notes...))
}

func resolveTimeouts(l model.Listener, cfg Config) (timeouts, []model.PortError) {
	t := timeouts{
		client: l.Timeouts.ClientData, connect: l.Timeouts.MemberConnect, member: l.Timeouts.MemberData,
		idle: l.Timeouts.UDPIdle, drain: cmp.Or(l.Timeouts.Drain, cfg.DrainTimeout),
	}
	var notes []model.PortError
	settle := func(d *time.Duration, name string, otherwise time.Duration) {
		if *d < 0 {
			notes = append(notes, model.PortError{
				Port: l.Port, Reason: TimeoutInvalid,
				Message: fmt.Sprintf("%s is %v, below zero: %v is used", name, *d, otherwise),
			})
		}
		if *d <= 0 {
			*d = otherwise
		}
	}
	settle(&t.client, "timeout-client-data", 50*time.Second)
	settle(&t.connect, "timeout-member-connect", 5*time.Second)
	settle(&t.member, "timeout-member-data", 50*time.Second)
	settle(&t.idle, "udp-idle-timeout", cfg.FlowTimeout)
	return t, notes
}

func algorithmNote(l model.Listener) model.PortError {
	return model.PortError{
		Port: l.Port, Reason: AlgorithmNotSupported,
		Message: fmt.Sprintf("the algorithm %q is not known: %s is used", l.Pool.Algorithm, model.RoundRobin),
	}
}

func uniqueIDNote(port model.Port) model.PortError {
	return model.PortError{
		Port: port, Reason: ProxyProtocolNotSupported,
		Message: "PROXY protocol v1 has no place for an id, so none is sent: choose v2 for this port",
	}
}

func proxyProtocolNote(port model.Port) model.PortError {
	return model.PortError{
		Port: port, Reason: ProxyProtocolNotSupported,
		Message: "PROXY protocol v1 cannot describe UDP, so no header is sent: choose v2 for this port",
	}
}
