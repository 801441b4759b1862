package proxy

import (
	"sync"
	"time"
)

// link is a TCP session or a UDP flow in service.
type link interface {
	// end makes the link end soon, for this reason if it is the first given.
	// It does not wait.
	end(reason Reason)
}

// links are the links that share a socket or a member, and the time at which
// they are cut. The zero value is an empty set without a deadline.
type links struct {
	mu  sync.Mutex
	set map[link]struct{}
	due time.Time
}

func (l *links) add(x link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.set == nil {
		l.set = map[link]struct{}{}
	}
	l.set[x] = struct{}{}
}

func (l *links) remove(x link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.set, x)
}

func (l *links) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.set)
}

// drain starts the drain: the links may live on for d, and not at all if that
// is negative. A drain that has begun is not put off.
func (l *links) drain(d time.Duration, now time.Time) {
	l.mu.Lock()
	if l.due.IsZero() {
		l.due = now.Add(max(d, 0))
	}
	l.mu.Unlock()
	if d < 0 {
		l.cut(ReasonDrain)
	}
}

// keep ends a drain: the links live on.
func (l *links) keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = time.Time{}
}

// cutIfDue ends all links once the drain is over, and tells whether none is left.
func (l *links) cutIfDue(now time.Time, reason Reason) bool {
	l.mu.Lock()
	due, left := !l.due.IsZero() && !now.Before(l.due), len(l.set)
	l.mu.Unlock()
	if due && left > 0 {
		l.cut(reason)
	}
	return left == 0
}

// cut ends all links.
func (l *links) cut(reason Reason) {
	for _, x := range l.all() {
		x.end(reason)
	}
}

// all returns the links of this moment.
func (l *links) all() []link {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]link, 0, len(l.set))
	for x := range l.set {
		all = append(all, x)
	}
	return all
}
