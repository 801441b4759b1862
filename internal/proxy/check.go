package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
	"github.com/fairlead-lb/fairlead/internal/proxy/proxyproto"
)

const (
	// transitional is how soon a check is repeated while its results and the
	// member's state disagree.
	transitional = time.Second
	// spread is the time over which first checks are spread at most.
	spread = 2 * time.Second
	// nudgePause is how long one refused connection stands for all others.
	nudgePause = time.Second
)

// checkPlan is how a member is checked. Its monitor has no open values; an
// empty type means that members are not checked.
type checkPlan struct {
	monitor model.Monitor
	header  model.ProxyProtocol
}

// resolveMonitor returns the plan of a listener's checks. What cannot be done
// as asked is said in the notes.
func resolveMonitor(l model.Listener) (checkPlan, []model.PortError) {
	m := l.Pool.Monitor
	note := func(reason, format string, args ...any) []model.PortError {
		return []model.PortError{{Port: l.Port, Reason: reason, Message: fmt.Sprintf(format, args...)}}
	}
	var notes []model.PortError
	switch {
	case m.Type == "":
		return checkPlan{}, nil
	case l.Port.Protocol == model.UDP && m.Port == 0:
		return checkPlan{}, note(HealthMonitorNotSupported,
			"a UDP port answers no TCP check, so the members of port %d are not checked: name a port for the health monitor", l.Port.Number)
	case m.Type == "HTTP":
		notes = note(HealthMonitorNotSupported, "HTTP health monitors are not supported here: the members of port %d are checked by TCP connect", l.Port.Number)
		m.Type = "TCP"
	case m.Type != "TCP":
		return checkPlan{}, note(HealthMonitorInvalid, "the health monitor type %q is not known: use TCP", m.Type)
	}
	m = completedMonitor(m)
	if m.Timeout > m.Delay || m.Timeout <= 0 || m.MaxRetries < 1 || m.MaxRetriesDown < 1 {
		return checkPlan{}, note(HealthMonitorInvalid,
			"the health monitor's timeout %v must be above zero and at most its delay %v, and its retries %d and %d at least 1: members are not checked",
			m.Timeout, m.Delay, m.MaxRetries, m.MaxRetriesDown)
	}
	p := checkPlan{monitor: m}
	if m.Port == 0 {
		p.header = l.Pool.ProxyProtocol
	}
	return p, notes
}

// completedMonitor fills in what is open: dead within 18 s, back within 10 s.
func completedMonitor(m model.Monitor) model.Monitor {
	const delay, timeout, rise, fall = 5 * time.Second, 3 * time.Second, 2, 3
	if m.Delay == 0 {
		m.Delay = delay
	}
	if m.Timeout == 0 {
		m.Timeout = min(timeout, m.Delay)
	}
	if m.MaxRetries == 0 {
		m.MaxRetries = rise
	}
	if m.MaxRetriesDown == 0 {
		m.MaxRetriesDown = fall
	}
	return m
}

// checker checks one member, one check at a time.
type checker struct {
	nudge chan string

	mu     sync.Mutex
	plan   checkPlan
	quit   chan struct{}
	cancel context.CancelFunc
	nudged time.Time
}

func newChecker() *checker { return &checker{nudge: make(chan string, 1)} }

// stop ends the checks; a check in progress counts no more.
func (c *checker) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.quit == nil {
		return
	}
	close(c.quit)
	if c.cancel != nil {
		c.cancel()
	}
	c.quit, c.cancel, c.plan = nil, nil, checkPlan{}
}

// refused makes a check happen now, and counts as one failed check itself. A
// burst counts once.
func (c *checker) refused(cause string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); c.quit != nil && now.Sub(c.nudged) >= nudgePause {
		c.nudged = now
		select {
		case c.nudge <- cause:
		default:
		}
	}
}

// check makes the checks of all members true: those in the snapshot are
// checked as planned, others are not. A changed plan keeps a member's state
// until the new checks say otherwise.
func (s *service) check(n *snapshot, plan checkPlan) {
	for _, m := range s.members {
		if !n.has(m.address) || plan.monitor.Type == "" {
			m.checker.stop()
			m.health.forget()
			continue
		}
		if m.checker.begin(plan) {
			run := checkRun{
				service: s, member: m, plan: plan, quit: m.checker.quit,
				probe: func(ctx context.Context) error { return probe(ctx, m.address, plan) },
			}
			s.proxy.tasks.add(run.loop)
		}
	}
}

// begin returns whether a loop with this plan has to be started.
func (c *checker) begin(plan checkPlan) bool {
	c.mu.Lock()
	running := c.quit != nil && c.plan == plan
	c.mu.Unlock()
	if running {
		return false
	}
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plan, c.quit = plan, make(chan struct{})
	return true
}

func (s *service) stopChecks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		m.checker.stop()
	}
}

// checkRun is one loop of checks with one plan.
type checkRun struct {
	service *service
	member  *member
	plan    checkPlan
	quit    chan struct{}
	probe   func(context.Context) error
}

// loop checks until the checker is stopped.
func (r checkRun) loop(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !r.register(cancel) {
		return
	}
	random := r.service.proxy.cfg.Random
	timer := time.NewTimer(time.Duration(random() % uint64(min(r.plan.monitor.Delay, spread))))
	defer timer.Stop()
	for {
		select {
		case <-r.quit:
			return
		case <-timer.C:
		case cause := <-r.member.checker.nudge:
			r.take(cause)
		}
		disagree, stopped := r.once(ctx)
		if stopped {
			return
		}
		timer.Reset(r.pause(disagree, random()))
	}
}

// register lets stop interrupt a check; false: it was stopped before.
func (r checkRun) register(cancel context.CancelFunc) bool {
	c := r.member.checker
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.quit != r.quit {
		return false
	}
	c.cancel = cancel
	return true
}

// once checks. Waiting for its turn is no part of the check's time.
func (r checkRun) once(ctx context.Context) (disagree, stopped bool) {
	select {
	case r.service.proxy.checks <- struct{}{}:
	case <-r.quit:
		return false, true
	}
	limited, cancel := context.WithTimeout(ctx, r.plan.monitor.Timeout)
	err := r.probe(limited)
	cancel()
	<-r.service.proxy.checks
	if ctx.Err() != nil {
		return false, true
	}
	return r.take(causeText(err, r.plan.monitor.Timeout)), false
}

// take counts a result, and tells the world of a change.
func (r checkRun) take(cause string) (disagree bool) {
	changed, disagree := r.member.health.observe(cause, r.plan.monitor)
	if changed {
		s := r.service
		state := r.member.health.report(r.member.address).State
		s.proxy.cfg.Log.Info("member changed state", slog.String("service", s.owner.String()), slog.String("port", s.port.String()),
			slog.String("member", r.member.address.String()), slog.String("state", string(state)), slog.String("reason", cause))
		s.proxy.news.add(s.owner)
	}
	return disagree
}

// pause returns the time to the next check: the delay with a tenth of jitter
// either way, or less while a change of state is being decided.
func (r checkRun) pause(disagree bool, random uint64) time.Duration {
	delay := r.plan.monitor.Delay
	if disagree {
		delay = min(delay, transitional)
	}
	const tenth = 10
	jitter := delay / tenth
	return delay - jitter + time.Duration(random%uint64(2*jitter+1))
}

// probe connects, sends the header that traffic would bring, and resets: that
// leaves no TIME_WAIT behind and no complaint in the receiver's log.
func probe(ctx context.Context, to netip.AddrPort, plan checkPlan) error {
	if plan.monitor.Port != 0 {
		to = netip.AddrPortFrom(to.Addr(), plan.monitor.Port)
	}
	c, err := netio.DialTCP(ctx, to)
	if err != nil {
		return err
	}
	var header []byte
	switch plan.header {
	case model.ProxyV1:
		header = proxyproto.AppendV1(nil, netio.Local(c), netio.Remote(c))
	case model.ProxyV2:
		header = proxyproto.AppendLocal(nil)
	case model.ProxyNone:
	}
	if len(header) > 0 {
		deadline, _ := ctx.Deadline()
		err = c.SetWriteDeadline(deadline)
		if err == nil {
			_, err = c.Write(header)
		}
	}
	return errors.Join(err, netio.Reset(c))
}

// causeText says for people why a member could not be reached; empty for nil.
func causeText(err error, limit time.Duration) string {
	if err == nil {
		return ""
	}
	cause := netio.CauseOf(err)
	switch cause {
	case netio.Unknown:
		return err.Error()
	case netio.TimedOut:
		return fmt.Sprintf("no answer within %v", limit)
	default:
		return string(cause)
	}
}
