package proxy

import (
	"cmp"
	"errors"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

// flows are the UDP flows of one socket, by client address: with the socket's
// own address that is the flow's 4-tuple.
type flows struct {
	mu       sync.Mutex
	byClient map[netip.AddrPort]*flow
	// avoid names the member from which an ICMP error came back, until the
	// client's next datagram or the flow time-out.
	avoid map[netip.AddrPort]refusal
}

type refusal struct {
	member *member
	at     time.Time
}

// flow is one client's conversation with one member, over a socket of its own
// that is connected to the member.
type flow struct {
	socket   *socket
	client   netip.AddrPort
	member   *member
	id       uniqueID
	upstream atomic.Pointer[netio.Datagrams]
	began    time.Time
	// moved is the time of the last datagram in either direction, as
	// nanoseconds since began.
	moved   atomic.Int64
	outcome atomic.Uint32
}

// find returns the client's flow, which has moved now.
func (t *flows) find(client netip.AddrPort) *flow {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.byClient[client]
	if f != nil {
		f.touch()
	}
	return f
}

// reserve makes room for a new flow; false: there is none, and flows that are
// there are kept. It returns the member that the client is to avoid, if any.
func (t *flows) reserve(f *flow, limit int) (avoid *member, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byClient) >= limit {
		return nil, false
	}
	if t.byClient == nil {
		t.byClient, t.avoid = map[netip.AddrPort]*flow{}, map[netip.AddrPort]refusal{}
	}
	t.byClient[f.client] = f
	avoid = t.avoid[f.client].member
	delete(t.avoid, f.client)
	return avoid, true
}

// drop forgets a flow.
func (t *flows) drop(f *flow) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byClient[f.client] == f {
		delete(t.byClient, f.client)
	}
}

// refuse makes the client's next flow avoid a member. There is never more to
// remember than limit.
func (t *flows) refuse(f *flow, limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.avoid) < limit {
		t.avoid[f.client] = refusal{f.member, time.Now()}
	}
}

// quiet returns how long the flow may still be silent. It forgets the flow
// when that is nothing: no datagram can be on its way into it any more.
func (t *flows) quiet(f *flow, limit time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := limit - (time.Since(f.began) - time.Duration(f.moved.Load()))
	if left <= 0 && t.byClient[f.client] == f {
		delete(t.byClient, f.client)
	}
	return left
}

// expire forgets refusals that are too old to matter.
func (t *flows) expire(now time.Time, limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for client, r := range t.avoid {
		if now.Sub(r.at) >= limit {
			delete(t.avoid, client)
		}
	}
}

func (f *flow) touch() { f.moved.Store(int64(time.Since(f.began))) }

func (f *flow) reason() Reason { return Reason(f.outcome.Load()) }

// end makes the flow end; the client's next datagram begins another one.
func (f *flow) end(why Reason) { f.endOnce(why) }

func (f *flow) endOnce(why Reason) bool {
	if !f.outcome.CompareAndSwap(uint32(ReasonNone), uint32(why)) {
		return false
	}
	f.socket.flows.drop(f)
	if c := f.upstream.Load(); c != nil {
		_ = c.SetDeadline(time.Unix(1, 0))
	}
	return true
}

// wake makes the flow look at its time-out again.
func (f *flow) wake() {
	if c := f.upstream.Load(); c != nil {
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
}

// failed ends the flow because of an error of its socket. That is mostly an
// ICMP error: the member's port is closed. The client is told nothing. It reports
// whether the flow went on until now.
func (f *flow) failed(err error) bool {
	if !f.endOnce(ReasonRefused) {
		return false
	}
	s := f.socket.service
	f.member.failed.Add(1)
	f.socket.flows.refuse(f, s.proxy.cfg.FlowLimit)
	s.connectFailed(f.member, err)
	return true
}

// reply carries the member's datagrams to the client until the flow ends. A
// buffer is held only while a datagram is being carried.
func (f *flow) reply() {
	upstream, answered := f.upstream.Load(), false
	for {
		limit := f.socket.service.snapshot.Load().timeouts.idle
		left := f.socket.flows.quiet(f, limit)
		if left <= 0 {
			f.end(ReasonClientIdle)
		}
		_ = upstream.SetReadDeadline(time.Now().Add(left))
		if f.reason() != ReasonNone {
			return
		}
		if f.socket.service.snapshot.Load().timeouts.idle != limit {
			continue // it changed before the deadline was set, which undid the wake-up
		}
		err := f.replyOnce(upstream)
		switch {
		case err == nil && !answered:
			answered = true
			f.socket.service.connected(f.member)
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			f.failed(err)
		}
	}
}

// replyOnce carries what the member has sent. An error is that of the member's
// side.
func (f *flow) replyOnce(upstream *netio.Datagrams) error {
	b, err := upstream.Receive()
	if err != nil {
		return err
	}
	defer b.Release()
	f.touch()
	_, bytes := b.Size(0, b.Len())
	f.member.fromMember.Add(bytes)
	for i := 0; i < b.Len(); i++ {
		n, err := f.socket.datagrams.Send(b, i, b.Len(), f.client)
		if i += n; err != nil {
			f.socket.drop(b, i, i+1)
		}
	}
	return nil
}

// send sends entries i to j of a batch to the member, with a header each if the
// pool wants one. It returns how many entries it has sent; an error is that of
// the next one.
func (f *flow) send(b *netio.Batch, i, j int) (sent int, err error) {
	upstream := f.upstream.Load()
	if f.socket.service.snapshot.Load().listener.Pool.ProxyProtocol != model.ProxyV2 {
		return upstream.Send(b, i, j, netip.AddrPort{})
	}
	for k := i; k < j; k++ {
		if err := f.sendWithHeaders(upstream, b, k); err != nil {
			return k - i, err
		}
	}
	return j - i, nil
}

// sendWithHeaders sends each datagram of an entry with a header. The header
// takes the place of what has been sent before it, so only the first one can be
// tried again: an error of a later one is a lost datagram.
func (f *flow) sendWithHeaders(upstream *netio.Datagrams, b *netio.Batch, i int) error {
	entry := b.Entry(i)[netio.Room-headerRoom:]
	left := len(entry) - headerRoom
	size := cmp.Or(b.Segment(i), left)
	for first := true; first || left > 0; first = false {
		n := min(size, left)
		if _, err := upstream.Write(f.withHeader(entry, n)); err != nil {
			if first {
				return err
			}
			f.socket.service.counters.dropped.Add(1)
		}
		entry, left = entry[n:], left-n
	}
	return nil
}

// close gives back what an ended flow holds.
func (f *flow) close() {
	s := f.socket.service
	_ = f.upstream.Load().Close()
	f.member.links.remove(f)
	f.socket.links.remove(f)
	s.proxy.budget.give(filesPerFlow)
	s.counters.close(f.reason())
}
