package proxy

import (
	"net"
	"sync"
	"time"

	"github.com/fairlead-lb/fairlead/internal/netio"
)

// idleWatch ends a session when nothing has moved for the time allowed, or when
// one side has acknowledged nothing for its own time although bytes wait for it.
//
// What counts as movement is a step of either pump, and an acknowledgement
// while bytes are still queued: with a slow reader one step takes long. That
// kind is looked for twice in the time allowed. A deadline on the connections
// would be an absolute limit instead, or cost a system call for every step.
type idleWatch struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	// lasting says that the kernel has been told what a connection needs that
	// lasts.
	lasting bool
	client  sending
	member  sending
	// unsent says that bytes were queued when the time was over. It is read
	// after stop.
	unsent bool
}

// sending is how far the bytes for one side have come.
type sending struct {
	queued int
	acked  uint64
	// since is when acked was first seen to be what it is.
	since time.Time
}

// look reads the connection anew and returns whether the peer has taken
// something of what is queued for it.
func (s *sending) look(c *net.TCPConn, now time.Time) (progress bool) {
	queued, acked, err := netio.Progress(c)
	if err != nil {
		return false // the connection's own direction reports it
	}
	changed := acked != s.acked
	if changed || queued == 0 || s.queued == 0 {
		s.since = now
	}
	s.queued, s.acked = queued, acked
	return changed && queued > 0
}

// stalled tells whether bytes have been waiting for the peer for so long.
func (s *sending) stalled(now time.Time, limit time.Duration) bool {
	return s.queued > 0 && now.Sub(s.since) >= limit
}

func (w *idleWatch) start(x *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(x.patience()/2, func() { w.look(x) })
}

// stop ends the watch; no look is in progress afterwards.
func (w *idleWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}

// again makes the next look happen after d.
func (w *idleWatch) again(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.timer.Reset(d)
	}
}

func (w *idleWatch) look(x *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	w.outlast(x)
	now := time.Now()
	toClient, toMember := w.client.look(x.client, now), w.member.look(x.upstream, now)
	if toClient || toMember {
		x.touch()
	}
	allowed := x.patience()
	quiet := now.Sub(x.relay.began) - time.Duration(x.relay.moved.Load())
	why := ReasonNone
	switch {
	case quiet >= allowed:
		why = x.idleReason()
	case w.client.stalled(now, x.rules.timeouts.client):
		why = ReasonClientIdle
	case w.member.stalled(now, x.rules.timeouts.member):
		why = ReasonMemberIdle
	}
	if why == ReasonNone {
		w.timer.Reset(min(allowed-quiet, allowed/2))
		return
	}
	w.unsent = w.client.queued > 0 || w.member.queued > 0
	x.end(why)
}

// outlast makes the kernel look for peers that are gone. Most connections end
// before the first look, and are spared the system calls.
func (w *idleWatch) outlast(x *session) {
	if w.lasting {
		return
	}
	w.lasting = true
	// The kernel gives up without telling the peer, so the idle watch, which
	// sends a RST, comes first. Errors are those of a connection that is broken.
	_ = netio.BoundSilence(x.client, 2*x.rules.timeouts.client)
	_ = netio.BoundSilence(x.upstream, 2*x.rules.timeouts.member)
	_ = netio.KeepAlive(x.upstream)
	_ = netio.KeepAlive(x.client) // an inherited listener would give it net's own
}

// patience is how long nothing may move. Any movement counts for both sides,
// so the smaller data time-out is the one that matters.
func (x *session) patience() time.Duration {
	t := x.rules.timeouts
	allowed := min(t.client, t.member)
	if x.relay.ended.Load() > 0 {
		allowed = min(allowed, x.service.proxy.cfg.FinTimeout)
	}
	return allowed
}

func (x *session) idleReason() Reason {
	switch {
	case x.relay.ended.Load() > 0:
		return ReasonFin
	case x.rules.timeouts.client <= x.rules.timeouts.member:
		return ReasonClientIdle
	default:
		return ReasonMemberIdle
	}
}
