package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/fairlead-lb/fairlead/internal/netio"
)

// socket is one listening socket of a service; either tcp or udp is set.
type socket struct {
	service *service
	id      socketID
	address netip.Addr
	tcp     *net.TCPListener
	udp     *net.UDPConn
	// datagrams is udp, in batches, once it is received from.
	datagrams *netio.Datagrams
	links     links
	flows     flows
	// done is closed when the socket is retired; finished says that nothing
	// more will be added to links.
	done     chan struct{}
	finished atomic.Bool
}

// run serves the socket until it is closed.
func (s *socket) run(ctx context.Context) {
	defer s.finished.Store(true)
	if s.tcp != nil {
		s.accept(ctx)
		return
	}
	s.receive()
}

// close stops listening. TCP connections live on; UDP flows end, because their
// replies cannot leave from the listener's address any more.
func (s *socket) close() {
	close(s.done)
	var err error
	if s.tcp != nil {
		err = s.tcp.Close()
	} else {
		err = s.udp.Close()
		s.links.cut(ReasonDrain)
	}
	if err != nil {
		s.service.proxy.cfg.Log.Warn("could not close a listener", slog.String("address", s.id.at.String()), slog.Any("error", err))
	}
}

func (s *socket) keepHouse(now time.Time) {
	if s.udp != nil {
		s.flows.expire(now, s.service.snapshot.Load().timeouts.idle)
	}
}

// accept takes connections until the listener is closed. A shortage of file
// descriptors makes it wait, never spin or end.
func (s *socket) accept(ctx context.Context) {
	for {
		c, err := s.tcp.AcceptTCP()
		switch {
		case err == nil:
			s.admit(ctx, c)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			if netio.CauseOf(err) == netio.OutOfFiles {
				s.service.counters.outOfFiles.Add(1)
			}
			if !pause(filePause, s.done) {
				return
			}
		}
	}
}

// admit lets one connection in, or resets it. At the connection limit it waits
// with this one in hand and the others in the kernel's backlog: they are
// connected but hear nothing until a slot is free, as with Octavia; or all are
// reset, if the listener is to refuse.
func (s *socket) admit(ctx context.Context, c *net.TCPConn) {
	svc := s.service
	if !svc.snapshot.Load().listener.Allows(netio.Remote(c).Addr()) {
		svc.counters.denied.Add(1)
		s.discard(c)
		return
	}
	switch svc.gate.enter(s.done, func() { svc.counters.queued.Add(1) }) {
	case admitted:
	case refused:
		svc.counters.refused.Add(1)
		s.discard(c)
		return
	case closed:
		s.discard(c)
		return
	}
	for !svc.proxy.budget.take(filesPerConnection) {
		svc.counters.outOfFiles.Add(1)
		if !pause(filePause, s.done) {
			svc.gate.leave()
			s.discard(c)
			return
		}
	}
	x := newSession(ctx, svc, c)
	x.over = func() {
		s.links.remove(x)
		svc.proxy.budget.give(filesPerConnection)
		svc.gate.leave()
		svc.counters.close(x.reason())
		svc.proxy.cfg.Log.DebugContext(ctx, "closed connection", slog.String("service", svc.owner.String()), slog.String("port", svc.port.String()),
			slog.String("client", x.from.String()), slog.String("reason", x.reason().String()), x.id.attr())
	}
	s.links.add(x)
	svc.counters.open()
	svc.proxy.tasks.add(x.serve)
}

// discard resets a connection that is not served.
func (s *socket) discard(c *net.TCPConn) {
	if err := netio.Reset(c); err != nil {
		s.service.proxy.cfg.Log.Debug("could not reset a connection", slog.Any("error", err))
	}
}
