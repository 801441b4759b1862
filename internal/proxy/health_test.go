package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// TestHC02Monitors says what can be checked and how; members of a UDP port are
// never left unchecked in silence (incident 45).
func TestHC02Monitors(t *testing.T) {
	tcp := model.Monitor{Type: "TCP", Delay: 5 * time.Second, Timeout: 3 * time.Second, MaxRetries: 2, MaxRetriesDown: 3}
	with := func(change func(*model.Monitor)) model.Monitor {
		m := tcp
		change(&m)
		return m
	}
	cases := map[string]struct {
		reason string
		port   model.Port
		in     model.Monitor
		want   checkPlan
		note   string
	}{
		"None":         {reason: "nobody asked", port: tcpPort(8080)},
		"HC01Defaults": {reason: "dead within 18 s, back within 10 s", port: tcpPort(8080), in: model.Monitor{Type: "TCP"}, want: checkPlan{tcp, model.ProxyV2}},
		"HC02Longer": {
			reason: "a time-out longer than the delay would make checks overlap", port: tcpPort(8080),
			in: with(func(m *model.Monitor) { m.Timeout = 6 * time.Second }), note: HealthMonitorInvalid,
		},
		"Negative": {
			reason: "no count is below one", port: tcpPort(8080),
			in: with(func(m *model.Monitor) { m.MaxRetriesDown = -1 }), note: HealthMonitorInvalid,
		},
		"UnknownType": {reason: "it cannot be guessed", port: tcpPort(8080), in: with(func(m *model.Monitor) { m.Type = "PING" }), note: HealthMonitorInvalid},
		"HC08HTTP": {
			reason: "the root is asked for when no path is named", port: tcpPort(8080),
			in: with(func(m *model.Monitor) { m.Type = "HTTP" }), want: checkPlan{with(func(m *model.Monitor) { m.Type, m.Path = "HTTP", "/" }), model.ProxyV2},
		},
		"HC11UDP":     {reason: "a UDP port answers no connect", port: udpPort(5353), in: tcp, note: HealthMonitorNotSupported},
		"HC11UDPHTTP": {reason: "nor a request", port: udpPort(5353), in: model.Monitor{Type: "HTTP"}, note: HealthMonitorNotSupported},
		"HC11Connect": {
			reason: "a datagram is sent only when asked for", port: udpPort(5353),
			in: with(func(m *model.Monitor) { m.Type = "UDP-CONNECT" }), want: checkPlan{with(func(m *model.Monitor) { m.Type = "UDP-CONNECT" }), model.ProxyV2},
		},
		"HC11ConnectTCP": {reason: "silence says nothing about a TCP port", port: tcpPort(8080), in: model.Monitor{Type: "UDP-CONNECT"}, note: HealthMonitorInvalid},
		"PPH02OtherPort": {
			reason: "another port gets no header", port: udpPort(5353),
			in: with(func(m *model.Monitor) { m.Port = 8081 }), want: checkPlan{with(func(m *model.Monitor) { m.Port = 8081 }), model.ProxyNone},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := listener(tc.port)
			l.Pool.Monitor, l.Pool.ProxyProtocol = tc.in, model.ProxyV2
			got, notes := resolveMonitor(l)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(checkPlan{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			note := ""
			if len(notes) > 0 {
				note = notes[0].Reason
			}
			if note != tc.note {
				t.Errorf("%s: note %q, want %q", tc.reason, note, tc.note)
			}
		})
	}
}

// checked is a service with one member whose checks are scripted.
type checked struct {
	service *service
	member  *member
	mu      sync.Mutex
	probes  []time.Duration // when, since the start
	fails   atomic.Bool
}

// runChecks starts the checks in a synctest bubble. Random is 0: the first one
// comes at once and each pause is the shortest, nine tenths of the delay.
func runChecks(t *testing.T, m model.Monitor, fails bool) *checked {
	t.Helper()
	p := New(Config{Random: func() uint64 { return 0 }})
	c := &checked{}
	c.fails.Store(fails)
	began := time.Now()
	p.checks.probe = func(context.Context, target) error {
		c.mu.Lock()
		c.probes = append(c.probes, time.Since(began))
		c.mu.Unlock()
		if c.fails.Load() {
			return syscall.ECONNREFUSED
		}
		return nil
	}
	c.start(t, p, m, 1)
	return c
}

// start applies a listener with members 10.0.0.1:80, 10.0.0.2:80 … that are
// checked as m says, until the end of the test.
func (c *checked) start(t *testing.T, p *Proxy, m model.Monitor, members int) {
	t.Helper()
	l := listener(tcpPort(8080))
	for i := range members {
		l.Pool.Members = append(l.Pool.Members, model.Member{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 80), Weight: 1})
	}
	l.Pool.Monitor = m
	c.service = newService(p, model.Key{Name: "web"}, l)
	p.tasks.start(t.Context())
	c.service.apply(l)
	c.member = c.service.snapshot.Load().members[0].member
}

// stop ends the checks, which a bubble waits for.
func (c *checked) stop() {
	c.service.stopChecks()
	c.service.proxy.tasks.wait()
}

// times returns when checks were made so far.
func (c *checked) times() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.probes)
}

// after waits and returns the member's state.
func (c *checked) after(d time.Duration) model.MemberState {
	time.Sleep(d)
	synctest.Wait()
	return c.member.health.report(c.member.address).State
}

func TestHC03FirstResult(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		fails  bool
		want   model.MemberState
	}{
		"Up":   {reason: "the first success is enough", want: model.MemberUp},
		"Down": {reason: "the first failure of an unknown member is enough", fails: true, want: model.MemberDown},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := runChecks(t, model.Monitor{Type: "TCP"}, tc.fails)
				if got := c.after(0); got != tc.want {
					t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
				}
				if down := c.member.health.down.Load(); down != tc.fails {
					t.Errorf("HC-14: pickers see down=%v, want %v", down, tc.fails)
				}
				c.stop()
			})
		})
	}
}

func TestHC03UnknownCountsAsUp(t *testing.T) {
	s := testService(t, Config{}, func(l *model.Listener) { l.Pool.Monitor = model.Monitor{Type: "TCP"} }, 1)
	if got := s.picks(1, client); got != "0" {
		t.Errorf("an unknown member was not picked: %s", got)
	}
}

// TestHC05Rhythm walks through fall and rise: three failures make a member
// down, two successes up; in between the checks come every second.
func TestHC05Rhythm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := runChecks(t, model.Monitor{Type: "TCP"}, false)
		c.after(0)
		c.fails.Store(true)
		if got := c.after(5500 * time.Millisecond); got != model.MemberUp { // 4.5, 5.4
			t.Errorf("after two failures: %s, want up", got)
		}
		if got := c.after(time.Second); got != model.MemberDown { // 6.3
			t.Errorf("after three failures: %s, want down", got)
		}
		c.fails.Store(false)
		if got := c.after(4500 * time.Millisecond); got != model.MemberDown { // 10.8
			t.Errorf("after one success: %s, want down", got)
		}
		if got := c.after(time.Second); got != model.MemberUp { // 11.7
			t.Errorf("after two successes: %s, want up", got)
		}
		c.stop()
		synctest.Wait()
		ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
		want := []time.Duration{0, ms(4500), ms(5400), ms(6300), ms(10800), ms(11700)}
		if diff := cmp.Diff(want, c.times()); diff != "" {
			t.Errorf("HC-04, HC-05: times of the checks (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]model.Key{{Name: "web"}}, c.service.proxy.news.take()); diff != "" {
			t.Errorf("news (-want +got):\n%s", diff)
		}
	})
}

func TestHC04Jitter(t *testing.T) {
	k := checker{target: target{plan: checkPlan{monitor: model.Monitor{Delay: 5 * time.Second}}}}
	least, most := time.Hour, time.Duration(0)
	for i := range uint64(10_000) {
		d := k.pause(false, i*0x9e3779b97f4a7c15)
		least, most = min(least, d), max(most, d)
	}
	if least < 4500*time.Millisecond || most > 5500*time.Millisecond || most-least < 900*time.Millisecond {
		t.Errorf("pauses from %v to %v, want all of 4.5 s to 5.5 s", least, most)
	}
}

// TestHC04QueueingIsNoFailure occupies every place for longer than the
// time-out: the check waits and then has its whole time.
func TestHC04QueueingIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &checked{}
		p := New(Config{Random: func() uint64 { return 0 }})
		for range checksInFlight {
			p.checks.turns <- struct{}{}
		}
		p.checks.probe = func(ctx context.Context, _ target) error { return ctx.Err() }
		c.start(t, p, model.Monitor{Type: "TCP"}, 1)
		if got := c.after(time.Minute); got != model.MemberUnknown {
			t.Errorf("while it waits: %s, want unknown", got)
		}
		<-p.checks.turns
		if got := c.after(0); got != model.MemberUp {
			t.Errorf("after its turn: %s, want up", got)
		}
		c.stop()
	})
}

func TestHC06RefusedTrafficChecksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := runChecks(t, model.Monitor{Type: "TCP"}, false)
		c.after(time.Second)
		c.fails.Store(true)
		for range 100 {
			c.service.connectFailed(c.member, syscall.ECONNREFUSED)
		}
		c.after(0)
		if n := len(c.times()); n != 2 {
			t.Errorf("a burst of refusals made %d checks, want 1 more than before", n-1)
		}
		// One refusal and one check: two of three failures.
		if got := c.after(500 * time.Millisecond); got != model.MemberUp {
			t.Errorf("a burst counted more than once: %s", got)
		}
		if got := c.after(500 * time.Millisecond); got != model.MemberDown {
			t.Errorf("after a refusal and two checks: %s, want down", got)
		}
		c.stop()
	})
}

// TestHC07CheckConnectsAndResets: and PPH-05, so no TIME_WAIT is left here.
func TestHC07CheckConnectsAndResets(t *testing.T) {
	got := make(chan error, 10)
	member := backend(t, func(c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		got <- err
	})
	r := newRig(t, Config{Random: func() uint64 { return 0 }})
	l := listener(tcpPort(8080), member)
	l.Pool.Monitor = model.Monitor{Type: "TCP", Delay: time.Hour, Timeout: patienceOfTests}
	r.set(l)
	if err := take(t, got); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the check ended with %v, want a reset", err)
	}
	eventually(t, "the member is up", func() bool { return r.health().State == model.MemberUp })
	if k := take(t, r.changed); k != r.owner {
		t.Errorf("news of %v, want %v", k, r.owner)
	}
}

// health returns that of the first member of the first port.
func (r *rig) health() model.MemberHealth { return r.State(r.owner).Health[0].Members[0] }

// healthOf returns that of a member of the first port.
func (r *rig) healthOf(a netip.AddrPort) model.MemberHealth {
	for _, m := range r.State(r.owner).Health[0].Members {
		if m.Address == a {
			return m
		}
	}
	return model.MemberHealth{}
}

// member returns the counters of a member of a port.
func (r *rig) member(p model.Port, a netip.AddrPort) MemberStats {
	for _, m := range r.port(p).Members {
		if m.Address == a {
			return m
		}
	}
	return MemberStats{}
}

// TestHC14DownIsLeft stops a member: it gets no traffic from then on, and comes
// back by itself.
func TestHC14DownIsLeft(t *testing.T) {
	r := newRig(t, Config{})
	at := netip.AddrPortFrom(testAddress(t), 8080)
	_, stop := backendAt(t, at, greet("a"))
	l := listener(tcpPort(8080), at, named(t, "b"))
	l.Pool.Monitor = model.Monitor{Type: "TCP", Delay: 50 * time.Millisecond, Timeout: 50 * time.Millisecond, MaxRetries: 1, MaxRetriesDown: 1}
	r.set(l)
	eventually(t, "the member is up", func() bool { return r.healthOf(at).State == model.MemberUp })
	stop()
	eventually(t, "the member is down", func() bool { return r.healthOf(at).State == model.MemberDown })
	if got := r.healthOf(at).Cause; got != "connection refused" {
		t.Errorf("cause %q, want connection refused", got)
	}
	before := r.member(tcpPort(8080), at).Total
	for range 6 {
		c := r.dial(8080)
		if got := read(t, c, 1); got != "b" {
			t.Errorf("went to %q, want b", got)
		}
		_ = c.Close()
	}
	if got := r.member(tcpPort(8080), at).Total; got != before {
		t.Errorf("the member that is down was chosen %d times", got-before)
	}
	backendAt(t, at, greet("a"))
	eventually(t, "the member is up again", func() bool { return r.healthOf(at).State == model.MemberUp })
}

// TestHC13ChangedCheck keeps the state until the new check has spoken (incident 44).
func TestHC13ChangedCheck(t *testing.T) {
	s := testService(t, Config{}, func(l *model.Listener) { l.Pool.Monitor = model.Monitor{Type: "TCP"} }, 2)
	m := s.snapshot.Load().members[0].member
	m.health.observe(verdict{cause: "connection refused"}, completedMonitor(model.Monitor{}), nil)
	l := s.without()
	l.Pool.Monitor.Port = 9999
	s.apply(l)
	if got := m.health.report(m.address); got.State != model.MemberDown {
		t.Errorf("after the check changed the member is %s, want down as before", got.State)
	}
	l.Pool.Monitor = model.Monitor{}
	s.apply(l)
	if got := m.health.report(m.address); got.State != model.MemberUnknown || got.Cause != "" {
		t.Errorf("without a check the member is %+v, want unknown", got)
	}
}

func TestConnectErrorsAreShown(t *testing.T) {
	r := newRig(t, Config{})
	at := deadAddress(t)
	r.set(listener(tcpPort(8080), at))
	r.refused(8080)
	take(t, r.changed)
	if got := r.health(); got.Cause != "connection refused" || got.State != model.MemberUnknown {
		t.Errorf("health %+v, want unknown by connection refused", got)
	}
	backendAt(t, at, greet("a"))
	read(t, r.dial(8080), 1)
	take(t, r.changed)
	if got := r.health().Cause; got != "" {
		t.Errorf("cause %q after a good connection, want none", got)
	}
}

// TestHeaderHint has a member hang up after the PROXY header, and then learn (incident 50).
func TestHeaderHint(t *testing.T) {
	var learned atomic.Bool
	member := backend(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 28))
		if learned.Load() {
			_, _ = io.WriteString(c, "a")
		}
	})
	r := newRig(t, Config{})
	l := listener(tcpPort(8080), member)
	l.Pool.ProxyProtocol = model.ProxyV2
	r.set(l)
	for i := range headerTrials {
		if got := r.health().Cause; got != "" {
			t.Errorf("after %d connections: %q", i, got)
		}
		c := r.dial(8080)
		mustFinish(t, c)
		_ = c.Close()
		eventually(t, "the connection is counted", func() bool {
			s := r.port(tcpPort(8080))
			return s.Active == 0 && s.Accepted == uint64(i+1)
		})
	}
	take(t, r.changed)
	const want = "closes the connection right after the PROXY header: it does not seem to expect PROXY protocol; " +
		"turn it on there, or turn the option proxy-protocol off"
	if got := r.health().Cause; got != want {
		t.Errorf("cause %q, want %q", got, want)
	}
	learned.Store(true)
	c := r.dial(8080)
	mustFinish(t, c)
	_ = c.Close()
	take(t, r.changed)
	if got := r.health().Cause; got != "" {
		t.Errorf("cause %q after an answer, want none", got)
	}
}

// TestHeaderHintIsNoAccusation: a client that hangs up first proves nothing.
func TestHeaderHintIsNoAccusation(t *testing.T) {
	r := newRig(t, Config{})
	l := listener(tcpPort(8080), backend(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }))
	l.Pool.ProxyProtocol = model.ProxyV1
	r.set(l)
	for range headerTrials + 1 {
		_ = r.dial(8080).Close()
	}
	eventually(t, "all are over", func() bool {
		s := r.port(tcpPort(8080))
		return s.Active == 0 && s.Accepted == headerTrials+1
	})
	if got := r.health().Cause; got != "" {
		t.Errorf("cause %q, want none", got)
	}
}
