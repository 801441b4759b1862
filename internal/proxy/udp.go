package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/fairlead-lb/fairlead/internal/netio"
)

const datagramSize = netio.DatagramSize

// receive takes datagrams from clients until the socket is closed. No error of
// one flow, and none of the socket but its closing, ends it.
func (s *socket) receive() {
	// The header is written in front of the payload, so that both are one
	// datagram without copying.
	buf := make([]byte, headerRoom+datagramSize)
	for {
		n, client, err := s.udp.ReadFromUDPAddrPort(buf[headerRoom:])
		switch {
		case err == nil:
			s.forward(buf, n, netio.Unmap(client))
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

// forward sends one datagram to the client's member. If the member has answered
// an earlier one with an ICMP error, this one goes to another at once.
func (s *socket) forward(buf []byte, n int, client netip.AddrPort) {
	rules := s.service.snapshot.Load()
	if !rules.listener.Allows(client.Addr()) {
		s.service.counters.denied.Add(1)
		return
	}
	const tries = 2
	for range tries {
		f := s.flow(client)
		if f == nil {
			break
		}
		_, err := f.upstream.Load().Write(f.withHeader(buf, n, rules))
		if err == nil {
			f.member.toMember.Add(uint64(n))
			return
		}
		if netio.CauseOf(err) == netio.TooLong {
			break
		}
		f.failed(err)
	}
	s.service.counters.dropped.Add(1)
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
	upstream, err := netio.DialUDP(f.member.address)
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
