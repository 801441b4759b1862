package proxy

import (
	"fmt"
	"log/slog"
	"time"
)

const (
	// outlierFailures connect errors in a row take a member out (LB-14).
	outlierFailures = 3
	// outlierGap is how far apart two failures in a row may be.
	outlierGap = 30 * time.Second
	// outlierBase times the number of times in a row is how long it is out.
	outlierBase = 30 * time.Second
	outlierMost = 300 * time.Second
)

// outlier is what traffic has met at a member of late, guarded by the lock of
// its health.
type outlier struct {
	// failures are connect errors in a row, the last one at last.
	failures int
	last     time.Time
	// times counts how often in a row it was taken out, lately until until.
	times int
	until time.Time
}

// term is how long the member is out this time.
func (o *outlier) term() time.Duration { return min(outlierBase*time.Duration(o.times), outlierMost) }

func (o *outlier) text(cause string) string {
	return fmt.Sprintf("%s, so it gets no traffic for %v after %d failed connections in a row", cause, o.term(), outlierFailures)
}

// strike counts a connect error and returns whether there are enough to take
// the member out.
func (h *health) strike(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := &h.outlier
	if now.Sub(o.last) > outlierGap {
		o.failures = 0
	}
	o.failures++
	o.last = now
	return o.failures >= outlierFailures
}

// eject takes the member out. A member that behaved for the longest term since
// the last time starts anew with the shortest.
func (h *health) eject(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := &h.outlier
	if now.Sub(o.until) > outlierMost {
		o.times = 0
	}
	o.times++
	o.failures, o.until = 0, now.Add(o.term())
	h.ejected.Store(true)
}

// readmit ends the member's time out once it is over, and returns whether it
// did. It begins with a slow start.
func (h *health) readmit(now time.Time) bool {
	if !h.ejected.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Before(h.outlier.until) {
		return false
	}
	h.warm()
	h.ejected.Store(false)
	return true
}

// strike counts a connect error of a member and takes it out if that was one
// too many: never more than half of those that serve, so never the last one.
func (s *service) strike(m *member, now time.Time) {
	if !m.health.strike(now) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	serving, out := 0, 0
	for _, c := range s.snapshot.Load().members {
		if c.weight > 0 && !c.health.down.Load() {
			serving++
			if c.health.ejected.Load() {
				out++
			}
		}
	}
	if m.health.down.Load() || m.health.ejected.Load() || 2*(out+1) > serving {
		return
	}
	m.health.eject(now)
	s.proxy.cfg.Log.Info("member taken out", slog.String("service", s.owner.String()), slog.String("port", s.port.String()),
		slog.String("member", m.address.String()), slog.String("reason", m.health.report(m.address).Cause))
	s.proxy.news.add(s.owner)
}
