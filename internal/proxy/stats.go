package proxy

import (
	"cmp"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// Reason is why a connection or flow ended.
type Reason uint32

// The reasons. ReasonNone is that of a connection that goes on.
const (
	ReasonNone Reason = iota
	// ReasonDone: both sides ended their stream in order.
	ReasonDone
	// ReasonClientReset and ReasonMemberReset: that side sent RST, or the
	// kernel gave up on it.
	ReasonClientReset
	ReasonMemberReset
	// ReasonClientIdle and ReasonMemberIdle: nothing moved for that side's
	// data time-out, which was the smaller one. UDP flows end by the former.
	ReasonClientIdle
	ReasonMemberIdle
	// ReasonConnect: no member could be connected to.
	ReasonConnect
	// ReasonNoMember: there was no member to choose.
	ReasonNoMember
	// ReasonFin: one side had ended and the other was silent for too long.
	ReasonFin
	// ReasonRefused: an ICMP error came back for a UDP flow.
	ReasonRefused
	// ReasonMoved: a UDP flow's member was removed or went down.
	ReasonMoved
	// ReasonDrain: the listener or member was removed, and the drain time is over.
	ReasonDrain
	// ReasonShutdown: the proxy stopped.
	ReasonShutdown
	reasons
)

// String returns the reason in the words of logs and metrics.
func (r Reason) String() string {
	names := [reasons]string{
		"none", "done", "client-reset", "member-reset", "client-idle", "member-idle",
		"connect", "no-member", "fin", "refused", "moved", "drain", "shutdown",
	}
	if r >= reasons {
		return "unknown"
	}
	return names[r]
}

// PortStats are the counters of one listener since it began to be served.
type PortStats struct {
	Owner model.Key
	Port  model.Port
	// Accepted counts connections and flows that were let in; Active is how
	// many there are now.
	Accepted, Active uint64
	// Denied counts connections, and datagrams, from outside the source ranges.
	Denied uint64
	// Queued counts connections that had to wait at the connection limit,
	// Refused those that were reset there.
	Queued, Refused uint64
	// OutOfFiles counts how often file descriptors were short, OutOfPorts how
	// often no local port was left to connect to a member from.
	OutOfFiles, OutOfPorts uint64
	// Dropped counts datagrams that went nowhere: no member, no room for a
	// flow, too long for the path, or a socket error.
	Dropped uint64
	// Retries counts attempts on another member after a failed one.
	Retries uint64
	// Closed counts ended connections and flows, by reason.
	Closed []ReasonCount
	// Members are sorted by address.
	Members []MemberStats
}

// ReasonCount is how many connections or flows ended for a reason.
type ReasonCount struct {
	Reason Reason
	Count  uint64
}

// MemberStats are the counters of one member of a listener.
type MemberStats struct {
	Address netip.AddrPort
	// Active are the connections or flows it has now, Total those it was
	// chosen for, Failed those among them that could not be opened.
	Active, Total, Failed uint64
	// ToMember and FromMember are payload bytes.
	ToMember, FromMember uint64
}

type counters struct {
	accepted, active, denied, queued, refused, outOfFiles, outOfPorts, dropped, retries atomic.Uint64

	closed [reasons]atomic.Uint64
}

func (c *counters) open() {
	c.accepted.Add(1)
	c.active.Add(1)
}

func (c *counters) close(why Reason) {
	c.active.Add(^uint64(0))
	c.closed[why].Add(1)
}

// Stats returns the counters of every listener in service, sorted by owner and
// port. A counter that is read is exact, the set is not one moment's.
func (p *Proxy) Stats() []PortStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []PortStats
	for _, o := range p.owners {
		for _, s := range o.services {
			all = append(all, s.stats())
		}
	}
	slices.SortFunc(all, func(a, b PortStats) int {
		return cmp.Or(a.Owner.Compare(b.Owner), a.Port.Compare(b.Port))
	})
	return all
}

func (s *service) stats() PortStats {
	c := &s.counters
	stats := PortStats{
		Owner: s.owner, Port: s.port,
		Accepted: c.accepted.Load(), Active: c.active.Load(), Denied: c.denied.Load(),
		Queued: c.queued.Load(), Refused: c.refused.Load(),
		OutOfFiles: c.outOfFiles.Load(), OutOfPorts: c.outOfPorts.Load(), Dropped: c.dropped.Load(), Retries: c.retries.Load(),
	}
	for why := ReasonDone; why < reasons; why++ {
		if n := c.closed[why].Load(); n > 0 {
			stats.Closed = append(stats.Closed, ReasonCount{why, n})
		}
	}
	for _, m := range s.snapshot.Load().members {
		stats.Members = append(stats.Members, MemberStats{
			Address: m.address, Active: uint64(m.links.len()), Total: m.total.Load(), Failed: m.failed.Load(),
			ToMember: m.toMember.Load(), FromMember: m.fromMember.Load(),
		})
	}
	return stats
}
