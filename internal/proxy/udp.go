package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/fairlead-lb/fairlead/internal/netio"
)

// receive takes datagrams from clients until the socket is closed. No error of
// one flow, and none of the socket but its closing, ends it.
func (s *socket) receive() {
	var err error
	if s.datagrams, err = netio.NewDatagrams(s.udp, &s.service.proxy.batches); err != nil {
		return // it is closed
	}
	for {
		b, err := s.datagrams.Receive()
		switch {
		case err == nil:
			s.forwardAll(b)
			b.Release()
		case errors.Is(err, net.ErrClosed):
			return
		default:
			s.service.counters.dropped.Add(1)
			if !pause(filePause, s.done) {
				return
			}
		}
	}
}

// forwardAll sends a batch, the consecutive entries of one client together.
func (s *socket) forwardAll(b *netio.Batch) {
	rules := s.service.snapshot.Load()
	var j int
	for i := 0; i < b.Len(); i = j {
		client := b.From(i)
		for j = i + 1; j < b.Len() && b.From(j) == client; {
			j++
		}
		if rules.listener.Allows(client.Addr()) {
			s.forward(b, i, j, client)
			continue
		}
		n, _ := b.Size(i, j)
		s.service.counters.denied.Add(n)
	}
}

// forward sends entries i to j of one client to its member. If the member has
// answered an earlier datagram with an ICMP error, these go to another at once.
func (s *socket) forward(b *netio.Batch, i, j int, client netip.AddrPort) {
	// A flow that ended by itself under the datagram's feet (UD-04) is no fault
	// of the member's; it has more tries, of which there must be an end.
	const tries, renewals = 2, 16
	for failed, ended := 0, 0; i < j && failed < tries && ended < renewals; {
		f := s.flow(client)
		if f == nil {
			break
		}
		n, err := f.send(b, i, j)
		_, bytes := b.Size(i, i+n)
		f.member.toMember.Add(bytes)
		i += n
		switch {
		case err == nil:
		case netio.CauseOf(err) == netio.TooLong:
			s.drop(b, i, i+1)
			i++
		default:
			if f.failed(err) {
				failed++
			} else {
				ended++
			}
		}
	}
	s.drop(b, i, j)
}

// drop counts entries i to j as gone nowhere.
func (s *socket) drop(b *netio.Batch, i, j int) {
	n, _ := b.Size(i, j)
	s.service.counters.dropped.Add(n)
}

// flow returns the client's flow, a new one if it has none or its member is
// not to be used any more; nil: there is no member or no room.
func (s *socket) flow(client netip.AddrPort) *flow {
	f := s.flows.find(client)
	if f != nil && s.service.holds(f.member) {
		return f
	}
	if f != nil {
		f.end(ReasonMoved)
	}
	return s.openFlow(client)
}

// holds tells whether a flow may stay with its member: not when that was
// removed, nor when it is down and another is up.
func (s *service) holds(m *member) bool {
	if m.removed.Load() {
		return false
	}
	if !m.health.down.Load() {
		return true
	}
	for _, other := range s.snapshot.Load().members {
		if other.weight > 0 && !other.health.down.Load() {
			return false
		}
	}
	return true
}

// wakeFlows makes all flows of the service look at their time-out again.
func (s *service) wakeFlows() {
	for _, m := range s.members {
		for _, x := range m.links.all() {
			if f, ok := x.(*flow); ok {
				f.wake()
			}
		}
	}
}

func (s *socket) openFlow(client netip.AddrPort) *flow {
	svc := s.service
	if !svc.proxy.budget.take(filesPerFlow) {
		svc.counters.outOfFiles.Add(1)
		return nil
	}
	f := &flow{socket: s, client: client, began: time.Now(), id: svc.newID(svc.snapshot.Load())}
	if !s.connectFlow(f) {
		svc.proxy.budget.give(filesPerFlow)
		return nil
	}
	svc.counters.open()
	svc.proxy.tasks.add(func(context.Context) {
		f.reply()
		f.close()
	})
	return f
}

// connectFlow gives a flow its place, its member and its socket.
func (s *socket) connectFlow(f *flow) bool {
	svc := s.service
	avoided, ok := s.flows.reserve(f, svc.proxy.cfg.FlowLimit)
	if !ok {
		return false
	}
	var tried []*member
	if avoided != nil {
		tried = append(tried, avoided)
	}
	f.member = svc.choose(f.client, tried, f)
	if f.member == nil && avoided != nil {
		// It is the only one, and may be back.
		f.member = svc.choose(f.client, nil, f)
	}
	if f.member == nil {
		s.flows.drop(f)
		return false
	}
	upstream, err := s.dialFlow(f.member.address)
	if err != nil {
		f.member.links.remove(f)
		f.member.failed.Add(1)
		s.flows.drop(f)
		if netio.CauseOf(err) == netio.OutOfFiles {
			svc.counters.outOfFiles.Add(1)
		}
		svc.connectFailed(f.member, err)
		return false
	}
	f.upstream.Store(upstream)
	s.links.add(f)
	select {
	case <-s.done:
		f.end(ReasonDrain) // the socket's close may have missed it
	default:
	}
	return true
}

func (s *socket) dialFlow(to netip.AddrPort) (*netio.Datagrams, error) {
	c, err := netio.DialUDP(to)
	if err != nil {
		return nil, err
	}
	d, err := netio.NewDatagrams(c, &s.service.proxy.batches)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return d, nil
}
