package proxy

import (
	"net"
	"sync"
	"time"

	"github.com/fairlead-lb/fairlead/internal/netio"
)

// idleWatch ends a session when nothing has moved for the time allowed.
//
// What counts as movement is a step of either pump, and an acknowledgement
// while bytes are still queued: with a slow reader one step takes long. That
// kind is looked for twice in the time allowed. A deadline on the connections
// would be an absolute limit instead, or cost a system call for every step.
type idleWatch struct {
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
	acked   [2]uint64
	// unsent says that bytes were queued when the time was over. It is read
	// after stop.
	unsent bool
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
	unsent, progress := false, false
	for i, c := range []*net.TCPConn{x.client, x.upstream} {
		queued, acked, err := netio.Progress(c)
		if err != nil {
			continue // the connection's own direction reports it
		}
		unsent = unsent || queued > 0
		progress = progress || queued > 0 && acked != w.acked[i]
		w.acked[i] = acked
	}
	if progress {
		x.touch()
	}
	allowed := x.patience()
	quiet := time.Since(x.relay.began) - time.Duration(x.relay.moved.Load())
	if quiet < allowed {
		w.timer.Reset(min(allowed-quiet, allowed/2))
		return
	}
	w.unsent = unsent
	x.end(x.idleReason())
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
