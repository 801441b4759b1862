package proxy

import (
	"net/netip"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// State returns what is served for an owner now. A port that could not be
// bound is part of it, with its error; Exists is false if there is no such owner.
func (p *Proxy) State(key model.Key) model.Observed {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.owners[key]
	if o == nil {
		return model.Observed{}
	}
	state := model.Observed{Exists: true, Balancer: o.balancer.Normalize()}
	for _, l := range o.balancer.Listeners {
		s := o.services[l.Port]
		h := model.PortHealth{Port: l.Port, Error: s.fault()}
		if p.cfg.PortOffset != 0 {
			h.At = s.listening(o.balancer.Addresses)
		}
		for _, m := range s.snapshot.Load().members {
			h.Members = append(h.Members, m.health.report(m.address))
		}
		state.Health = append(state.Health, h)
	}
	return state
}

// listening returns the service's sockets in the order of the addresses.
func (s *service) listening(addresses []netip.Addr) []netip.AddrPort {
	var at []netip.AddrPort
	for _, a := range addresses {
		if sock := s.sockets[a]; sock != nil {
			at = append(at, sock.id.at)
		}
	}
	return at
}
