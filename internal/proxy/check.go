package proxy

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-lb/fairlead/internal/netio"
)

const (
	// transitional is how soon a check is repeated while its results and the
	// member's state disagree.
	transitional = time.Second
	// spread is the time over which first checks are spread at most.
	spread = 2 * time.Second
	// nudgePause is how long one refused connection stands for all others.
	nudgePause = time.Second
	// checksInFlight bounds the health checks that wait for an answer (HC-04).
	checksInFlight = 64
)

// checks are the health checks of a proxy: one loop for each target, whoever
// wants it.
type checks struct {
	probe  func(context.Context, target) error
	random func() uint64
	tasks  *tasks
	// turns has a place for every check that may be in flight.
	turns chan struct{}

	mu       sync.Mutex
	byTarget map[target]*checker
}

func newChecks(random func() uint64, t *tasks) *checks {
	return &checks{
		probe: probe, random: random, tasks: t,
		turns: make(chan struct{}, checksInFlight), byTarget: map[target]*checker{},
	}
}

// checker checks one target, one check at a time, for all who asked.
type checker struct {
	checks *checks
	target target
	// nudge makes a check happen now.
	nudge chan struct{}
	quit  chan struct{}

	mu     sync.Mutex
	asking []asking
	// begun says that there has been a result.
	begun  bool
	cancel context.CancelFunc
	nudged time.Time
}

// asking is a member that is checked, on behalf of one service.
type asking struct {
	service *service
	member  *member
}

// join has a target checked for a member from now on, at once unless the first
// check is due anyway.
func (c *checks) join(t target, a asking) *checker {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.byTarget[t]
	if k == nil {
		k = &checker{checks: c, target: t, nudge: make(chan struct{}, 1), quit: make(chan struct{})}
		c.byTarget[t] = k
		c.tasks.add(k.loop)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asking = append(k.asking, a)
	if k.begun {
		k.hurry()
	}
	return k
}

// leave ends the checks for a member; one in progress counts no more for it.
func (c *checks) leave(k *checker, m *member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asking = slices.DeleteFunc(k.asking, func(a asking) bool { return a.member == m })
	if len(k.asking) > 0 || c.byTarget[k.target] != k {
		return
	}
	delete(c.byTarget, k.target)
	close(k.quit)
	if k.cancel != nil {
		k.cancel()
	}
}

// check makes the checks of all members true: those in the snapshot are
// checked as planned, others are not. A changed plan keeps a member's state
// until the new checks say otherwise. The caller holds the service's lock.
func (s *service) check(n *snapshot, plan checkPlan) {
	for _, m := range s.members {
		if !n.has(m.address) || plan.monitor.Type == "" {
			s.uncheck(m)
			m.health.forget()
			continue
		}
		want, now := plan.targetOf(m), m.checker.Load()
		if now != nil && now.target == want {
			continue
		}
		s.uncheck(m)
		m.checker.Store(s.proxy.checks.join(want, asking{s, m}))
	}
}

func (s *service) uncheck(m *member) {
	if k := m.checker.Swap(nil); k != nil {
		s.proxy.checks.leave(k, m)
	}
}

func (s *service) stopChecks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		s.uncheck(m)
	}
}

// hurry makes a check happen now. The caller holds the lock.
func (k *checker) hurry() {
	select {
	case k.nudge <- struct{}{}:
	default:
	}
}

// refused makes a check happen now, and counts as one failed check of the
// member itself. A burst counts once.
func (k *checker) refused(m *member, cause string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if now.Sub(k.nudged) < nudgePause {
		return
	}
	for _, a := range k.asking {
		if a.member == m {
			k.nudged = now
			a.take(verdict{cause: cause}, k.target.plan)
			k.hurry()
		}
	}
}

// loop checks until nobody asks any more.
func (k *checker) loop(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.mu.Lock()
	k.cancel = cancel
	k.mu.Unlock()
	timer := time.NewTimer(time.Duration(k.checks.random() % uint64(min(k.target.plan.monitor.Delay, spread))))
	defer timer.Stop()
	for {
		select {
		case <-k.quit:
			return
		case <-timer.C:
		case <-k.nudge:
		}
		select {
		case <-k.quit:
			return // both had come, and chance chose
		default:
		}
		disagree, stopped := k.once(ctx)
		if stopped {
			return
		}
		timer.Reset(k.pause(disagree, k.checks.random()))
	}
}

// once checks. Waiting for its turn is no part of the check's time.
func (k *checker) once(ctx context.Context) (disagree, stopped bool) {
	select {
	case k.checks.turns <- struct{}{}:
	case <-k.quit:
		return false, true
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, k.target.plan.monitor.Timeout)
	err := k.checks.probe(limited, k.target)
	cancel()
	<-k.checks.turns
	v, counts := k.target.plan.judge(err, time.Since(began))
	if !counts {
		return true, false
	}
	return k.deliver(v), false
}

// judge turns the outcome of a check into a verdict. A time-out that came much
// too late does not count: this process or machine stood still, so an answer
// may have been there (HC-15).
func (p checkPlan) judge(err error, took time.Duration) (v verdict, counts bool) {
	limit := p.monitor.Timeout
	cause := netio.CauseOf(err)
	v = verdict{
		cause: causeText(err, limit),
		slow:  cause == netio.TimedOut,
		final: p.spokenFor() && (cause == netio.Refused || says503(err)),
	}
	return v, !v.slow || took < limit+limit/2
}

// deliver gives a result to all who asked, and returns whether it contradicts
// the state of one.
func (k *checker) deliver(v verdict) (disagree bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begun = true
	for _, a := range k.asking {
		if a.take(v, k.target.plan) {
			disagree = true
		}
	}
	return disagree
}

// take counts a result for one member, and tells the world of a change.
func (a asking) take(v verdict, plan checkPlan) (disagree bool) {
	s, m := a.service, a.member
	changed, disagree := m.health.observe(v, plan.monitor, s.mayGoDown)
	if changed {
		state := m.health.report(m.address).State
		s.proxy.cfg.Log.Info("member changed state", slog.String("service", s.owner.String()), slog.String("port", s.port.String()),
			slog.String("member", m.address.String()), slog.String("state", string(state)), slog.String("reason", v.cause))
		s.proxy.news.add(s.owner)
	}
	return disagree
}

// pause returns the time to the next check: the delay with a tenth of jitter
// either way, or less while a change of state is being decided.
func (k *checker) pause(disagree bool, random uint64) time.Duration {
	delay := k.target.plan.monitor.Delay
	if disagree {
		delay = min(delay, transitional)
	}
	const tenth = 10
	jitter := delay / tenth
	return delay - jitter + time.Duration(random%uint64(2*jitter+1))
}

// brake bounds how many members of a service silence takes out at a time. The
// zero value is ready.
type brake struct {
	mu    sync.Mutex
	since time.Time
	taken int
}

// mayGoDown tells whether silence may take one more member out now: no more
// than half of them within a second. Silence everywhere at once is more often
// this machine's fault than theirs, and a second later it is asked again.
func (s *service) mayGoDown() bool {
	b := &s.brake
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); now.Sub(b.since) >= transitional {
		b.since, b.taken = now, 0
	}
	if b.taken >= max(1, len(s.snapshot.Load().members)/2) {
		return false
	}
	b.taken++
	return true
}
