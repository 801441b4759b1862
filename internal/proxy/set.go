package proxy

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// owner is one balancer in service.
type owner struct {
	balancer model.Balancer
	services map[model.Port]*service
}

// socketID is the identity of a listening socket.
type socketID struct {
	at       netip.AddrPort
	protocol model.Protocol
}

// Set makes the whole wanted set of listeners of one owner true, at once and
// live: what is not in it stops accepting, what stays keeps its socket, and
// established connections continue (of a removed listener or member until the
// drain time is over). Another uid is another owner: nothing is kept. No
// listeners remove the owner.
//
// The errors, sorted by port, are of those ports that are not served, or not
// quite as asked; they do not stop the others. A socket that could not be
// bound is tried again by the next Set and by Run.
func (p *Proxy) Set(key model.Key, uid string, addresses []netip.Addr, listeners []model.Listener) []model.PortError {
	want := model.Balancer{Key: key, UID: uid, Addresses: addresses, Listeners: listeners}.Normalize()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return stoppedErrors(want.Listeners)
	}
	gone := len(listeners) == 0
	o := p.owners[key]
	if o != nil && (gone || o.balancer.UID != uid) {
		p.remove(o)
		o = nil
	}
	if gone {
		return nil
	}
	if o == nil {
		o = &owner{services: map[model.Port]*service{}}
		p.owners[key] = o
	}
	o.balancer = want
	p.release(o)
	for _, l := range want.Listeners {
		p.serve(o, l)
	}
	return o.errors()
}

// Owners returns every owner that something is served for, sorted.
func (p *Proxy) Owners() []model.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys()
}

func (p *Proxy) keys() []model.Key {
	keys := make([]model.Key, 0, len(p.owners))
	for key := range p.owners {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, model.Key.Compare)
	return keys
}

// release closes the sockets of an owner that it no longer wants, before new
// ones are bound: a port may move from one listener to another.
func (p *Proxy) release(o *owner) {
	for port, s := range o.services {
		_, wanted := o.balancer.Find(port)
		for _, sock := range s.sockets {
			if !wanted || !slices.Contains(o.balancer.Addresses, sock.address) {
				p.retire(s, sock)
			}
		}
		if !wanted {
			s.stopChecks()
			delete(o.services, port)
			p.cfg.Log.Info("stopped serving port", slog.String("service", s.owner.String()), slog.String("port", port.String()))
		}
	}
}

func (p *Proxy) retire(s *service, sock *socket) {
	delete(s.sockets, sock.address)
	delete(p.sockets, sock.id)
	sock.close()
	sock.links.drain(s.snapshot.Load().timeouts.drain, time.Now())
	p.retired = append(p.retired, sock)
}

func (p *Proxy) remove(o *owner) {
	key := o.balancer.Key
	o.balancer.Listeners, o.balancer.Addresses = nil, nil
	p.release(o)
	delete(p.owners, key)
}

// serve makes one listener of an owner true.
func (p *Proxy) serve(o *owner, l model.Listener) {
	s := o.services[l.Port]
	if s == nil {
		s = newService(p, o.balancer.Key, l)
		o.services[l.Port] = s
		p.cfg.Log.Info("began serving port", slog.String("service", s.owner.String()), slog.String("port", l.Port.String()))
	}
	s.apply(l)
	p.bind(o, s)
}

// bind opens the sockets of a service that are missing.
func (p *Proxy) bind(o *owner, s *service) {
	s.failed = nil
	s.retryAt = time.Now().Add(p.cfg.RetryDelay)
	for _, a := range o.balancer.Addresses {
		if s.sockets[a] != nil {
			continue
		}
		sock, fault := p.open(s, a)
		if fault.Reason != "" {
			s.failed = append(s.failed, fault)
			continue
		}
		s.sockets[a] = sock
		p.sockets[sock.id] = sock
		p.tasks.add(sock.run)
	}
}

func (p *Proxy) open(s *service, a netip.Addr) (*socket, model.PortError) {
	number := int(s.port.Number) + p.cfg.PortOffset
	if number < 1 || number > 65535 {
		return nil, offsetError(s.port, p.cfg.PortOffset)
	}
	id := socketID{netip.AddrPortFrom(a, uint16(number)), s.port.Protocol}
	if taken := p.sockets[id]; taken != nil {
		return nil, model.PortError{
			Port: s.port, Reason: PortInUse,
			Message: fmt.Sprintf("port %d of %s is already served for %s", number, a, taken.service.owner),
		}
	}
	sock := &socket{service: s, id: id, address: a, done: make(chan struct{})}
	var err error
	switch s.port.Protocol {
	case model.TCP:
		sock.tcp, err = p.listenTCP(id)
	case model.UDP:
		if a.IsUnspecified() {
			return nil, unspecifiedError(s.port, a)
		}
		sock.udp, err = p.listenUDP(id)
	default:
		return nil, protocolError(s.port)
	}
	if err != nil {
		return nil, bindError(s.port, id.at, p.cfg.PortOffset, err)
	}
	return sock, model.PortError{}
}

// retry binds again what is due, and makes news of what became different.
func (p *Proxy) retry(now time.Time) {
	for _, key := range p.keys() {
		o := p.owners[key]
		for _, l := range o.balancer.Listeners {
			s := o.services[l.Port]
			if len(s.failed) == 0 || now.Before(s.retryAt) {
				continue
			}
			before := s.fault()
			p.bind(o, s)
			if s.fault() != before {
				p.news.add(key)
			}
		}
	}
}

func (o *owner) errors() []model.PortError {
	var faults []model.PortError
	for _, l := range o.balancer.Listeners {
		if f := o.services[l.Port].fault(); f.Reason != "" {
			faults = append(faults, f)
		}
	}
	return faults
}
