package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
	"github.com/fairlead-lb/fairlead/internal/proxy/proxyproto"
)

const (
	// connectTries is how many members one client connection may be tried on.
	connectTries = 3
	// connectBudget times the connect time-out is what all tries may take.
	connectBudget = 2
	// earlyBytes bounds the client bytes that go out together with a header.
	earlyBytes = 2048
	// watchAfter is how long connecting takes before the client is watched: a
	// member that is near answers sooner, and watching costs as much as that.
	watchAfter = 5 * time.Millisecond
)

// errEnded says that a session ended while a member was being connected to.
var errEnded = errors.New("the session has ended")

// session is one client connection and its connection to a member.
type session struct {
	service *service
	rules   *snapshot
	client  *net.TCPConn
	from    netip.AddrPort
	ctx     context.Context //nolint:containedctx // it is the session's lifetime
	cancel  context.CancelFunc
	outcome atomic.Uint32
	id      uniqueID
	// over is called at the very end.
	over func()

	mu       sync.Mutex
	upstream *net.TCPConn

	// Used by one goroutine at a time: serve's, then that of the direction which
	// ends last.
	member *member
	held   []byte
	relay  relay
}

func newSession(ctx context.Context, s *service, client *net.TCPConn) *session {
	x := &session{service: s, rules: s.snapshot.Load(), client: client, from: netio.Remote(client)}
	x.ctx, x.cancel = context.WithCancel(ctx)
	x.id = s.newID(x.rules)
	return x
}

// serve connects the client to a member and leaves the rest to two goroutines
// with fresh stacks: connecting needs deep ones, and an idle connection is to
// hold as little as can be.
func (x *session) serve(context.Context) {
	if x.connect() {
		x.carry()
		return
	}
	x.finish()
}

// finish closes what is open and says that the session is over.
func (x *session) finish() {
	if x.member != nil {
		x.member.links.remove(x)
		x.service.judge(x)
		x.close(x.upstream)
	}
	x.close(x.client)
	x.cancel()
	x.over()
}

func (x *session) reason() Reason { return Reason(x.outcome.Load()) }

// end decides how the session ends; the first reason given counts. Every wait
// on either connection ends with it.
func (x *session) end(why Reason) {
	if !x.outcome.CompareAndSwap(uint32(ReasonNone), uint32(why)) {
		return
	}
	x.cancel()
	interrupt(x.client)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.upstream != nil {
		interrupt(x.upstream)
	}
}

func interrupt(c *net.TCPConn) { _ = c.SetDeadline(time.Unix(1, 0)) }

// connect tries members until one is connected and has taken its header; each
// one once. False: the session has ended. No byte of payload has gone to a
// member that failed, so a try on the next one repeats nothing.
func (x *session) connect() bool {
	until := time.Now().Add(connectBudget * x.rules.timeouts.connect)
	tried := make([]*member, 0, connectTries)
	for len(tried) < connectTries && x.ctx.Err() == nil && time.Now().Before(until) {
		m := x.service.choose(x.from, tried, x)
		if m == nil {
			break
		}
		if len(tried) > 0 {
			x.service.counters.retries.Add(1)
		}
		again, err := x.open(m, until)
		if err == nil {
			x.member = m
			x.service.connected(m)
			return true
		}
		m.links.remove(x)
		m.failed.Add(1)
		if x.reason() != ReasonNone {
			return false
		}
		x.service.connectFailed(m, err)
		if !again {
			x.end(ReasonMemberReset)
			return false
		}
		tried = append(tried, m)
	}
	if len(tried) == 0 {
		x.end(ReasonNoMember)
	}
	x.end(ReasonConnect)
	return false
}

// open connects to a member and writes what must come first. again tells
// whether another member may be tried after an error.
func (x *session) open(m *member, until time.Time) (again bool, err error) {
	c, err := x.dial(m.address, until)
	if err != nil {
		return true, err
	}
	x.mu.Lock()
	x.upstream = c
	x.mu.Unlock()
	if x.reason() != ReasonNone {
		x.drop(c)
		return false, errEnded // the context may not know it yet
	}
	if again, err := x.writeFirst(c); err != nil {
		x.drop(c)
		return again, err
	}
	return false, nil
}

func (x *session) drop(c *net.TCPConn) {
	x.mu.Lock()
	x.upstream = nil
	x.mu.Unlock()
	_ = netio.Reset(c)
}

// dial connects while watching the client: its RST ends the session, its FIN
// and its bytes do not.
func (x *session) dial(to netip.AddrPort, until time.Time) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(x.ctx, min(x.rules.timeouts.connect, time.Until(until)))
	defer cancel()
	unwatch := x.watchClient()
	c, err := netio.DialTCP(ctx, to)
	unwatch()
	return c, err
}

// watchClient watches the client before long, until stop has been called.
func (x *session) watchClient() (stop func()) {
	watched := make(chan struct{})
	timer := time.AfterFunc(watchAfter, func() {
		defer close(watched)
		if err := netio.WaitBroken(x.client); !errors.Is(err, os.ErrDeadlineExceeded) {
			x.end(ReasonClientReset)
		}
	})
	return func() {
		if timer.Stop() {
			return
		}
		_ = x.client.SetReadDeadline(time.Unix(1, 0))
		<-watched
		_ = x.client.SetReadDeadline(time.Time{})
		if x.reason() != ReasonNone {
			interrupt(x.client)
		}
	}
}

// writeFirst writes the header, in one piece with the client's bytes that are
// already there. again is false once a byte of payload may have been taken.
func (x *session) writeFirst(c *net.TCPConn) (again bool, err error) {
	if x.rules.listener.Pool.ProxyProtocol == model.ProxyNone && len(x.held) == 0 {
		return true, nil
	}
	first := make([]byte, 0, proxyproto.MaxLen+earlyBytes)
	first = appendHeader(first, x.rules.listener.Pool.ProxyProtocol, x.from, netio.Local(x.client), x.id.bytes())
	header := len(first)
	if x.held == nil {
		n, err := netio.TakeReady(x.client, first[header:header+earlyBytes])
		if err != nil {
			x.end(ReasonClientReset)
			return false, err
		}
		x.held = append(x.held, first[header:header+n]...)
	}
	first = append(first, x.held...)
	if err := c.SetWriteDeadline(time.Now().Add(x.rules.timeouts.connect)); err != nil {
		return true, err
	}
	n, err := c.Write(first)
	if err != nil {
		return n <= header, err
	}
	x.relay.early = len(x.held)
	x.held = nil
	return true, c.SetWriteDeadline(time.Time{})
}

// close ends one of the session's connections: by FIN if the session ended in
// order or by its time-out with nothing left to send, else by RST.
func (x *session) close(c *net.TCPConn) {
	switch x.reason() {
	case ReasonDone:
		_ = c.Close()
		return
	case ReasonClientIdle, ReasonMemberIdle, ReasonFin:
		if !x.relay.idle.unsent {
			_ = c.Close()
			return
		}
	default:
	}
	_ = netio.Reset(c)
}
