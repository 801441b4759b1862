package proxy

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// at returns a member of the service.
func (s *service) at(position int) *member { return s.snapshot.Load().members[position].member }

// fail makes a number of connections to a member fail.
func (s *service) fail(position, times int) {
	for range times {
		s.connectFailed(s.at(position), syscall.ECONNREFUSED)
	}
}

// ejected returns which members are out, as "0,2".
func (s *service) ejected() string {
	var out []string
	for i, m := range s.snapshot.Load().members {
		if m.health.ejected.Load() {
			out = append(out, string(rune('0'+i)))
		}
	}
	return strings.Join(out, ",")
}

func TestLB14Ejection(t *testing.T) {
	cases := map[string]struct {
		reason  string
		members int
		do      func(*service)
		want    string
	}{
		"Two":      {reason: "two errors are no pattern", members: 4, do: func(s *service) { s.fail(0, 2) }},
		"Three":    {reason: "three are", members: 4, do: func(s *service) { s.fail(0, 3) }, want: "0"},
		"NotInRow": {reason: "a good connection in between forgives", members: 4, do: func(s *service) { s.fail(0, 2); s.connected(s.at(0)); s.fail(0, 2) }},
		"Spread":   {reason: "an error a minute is no row", members: 4, do: func(s *service) { s.fail(0, 2); time.Sleep(time.Minute); s.fail(0, 2) }},
		"Half":     {reason: "half may go", members: 4, do: func(s *service) { s.fail(0, 3); s.fail(1, 3) }, want: "0,1"},
		"MoreThan": {reason: "not more than half", members: 5, do: func(s *service) { s.fail(0, 3); s.fail(1, 3); s.fail(2, 9) }, want: "0,1"},
		"Last":     {reason: "never the last one", members: 1, do: func(s *service) { s.fail(0, 9) }},
		"DownAre":  {reason: "those that are down are no reserve", members: 2, do: func(s *service) { s.at(1).health.down.Store(true); s.fail(0, 9) }},
		"Drained":  {reason: "nor are those that drain", members: 2, do: func(s *service) { s.apply(s.weigh(1, 0)); s.fail(0, 9) }},
		"TL09NoPort": {reason: "a port that is missing here is not its fault", members: 4, do: func(s *service) {
			for range 9 {
				s.connectFailed(s.at(0), syscall.EADDRNOTAVAIL)
			}
		}},
		"TL05NoFile": {reason: "nor is a file descriptor", members: 4, do: func(s *service) {
			for range 9 {
				s.connectFailed(s.at(0), syscall.EMFILE)
			}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testService(t, Config{}, nil, tc.members)
				tc.do(s)
				if got := s.ejected(); got != tc.want {
					t.Errorf("%s: out are %q, want %q", tc.reason, got, tc.want)
				}
			})
		})
	}
}

// TestLB14Terms: each time out is longer than the one before, up to 300 s; who
// behaves that long begins anew.
func TestLB14Terms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testService(t, Config{}, nil, 2)
		out := func() time.Duration {
			began := time.Now()
			s.fail(0, outlierFailures)
			for s.ejected() != "" {
				time.Sleep(time.Second)
				s.keepHouse(time.Now())
			}
			return time.Since(began)
		}
		var terms []time.Duration
		for range 12 {
			terms = append(terms, out())
		}
		time.Sleep(301 * time.Second)
		terms = append(terms, out())
		want := make([]time.Duration, 0, 13)
		for _, seconds := range []int{30, 60, 90, 120, 150, 180, 210, 240, 270, 300, 300, 300, 30} {
			want = append(want, time.Duration(seconds)*time.Second)
		}
		if diff := cmp.Diff(want, terms); diff != "" {
			t.Errorf("times out (-want +got):\n%s", diff)
		}
	})
}

// TestLB14TrafficGoesElsewhere: a member that is out gets nothing, unless all
// others have just been tried.
func TestLB14TrafficGoesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testService(t, Config{}, nil, 2)
		s.fail(0, outlierFailures)
		if got := s.picks(4, client); got != "1111" {
			t.Errorf("picked %s, want 1111", got)
		}
		if got := s.choose(client(0), []*member{s.at(1)}, &nobody{}); got != s.at(0) {
			t.Errorf("with the other one tried: %v, want the member that is out", got)
		}
		const want = "connection refused, so it gets no traffic for 30s after 3 failed connections in a row"
		if got := s.at(0).health.report(s.at(0).address).Cause; got != want {
			t.Errorf("cause %q, want %q", got, want)
		}
		s.proxy.news.take()
		time.Sleep(30 * time.Second)
		s.keepHouse(time.Now())
		if got := s.proxy.news.take(); len(got) != 1 {
			t.Errorf("news of %v when the member is back, want one", got)
		}
	})
}

// TestLB14RealConnections has a member refuse while another one serves: clients
// notice nothing, and after three tries the first one is left alone.
func TestLB14RealConnections(t *testing.T) {
	r := newRig(t, Config{})
	dead := deadAddress(t)
	l := listener(tcpPort(8080), dead, named(t, "b"))
	r.set(l)
	for range 12 {
		c := r.dial(8080)
		if got := read(t, c, 1); got != "b" {
			t.Fatalf("got %q, want b", got)
		}
		_ = c.Close()
	}
	if got := r.member(tcpPort(8080), dead).Failed; got != outlierFailures {
		t.Errorf("the dead member was tried %d times, want %d", got, outlierFailures)
	}
}

// comeBack takes a member down and up again by its checks.
func (s *service) comeBack(position int) {
	plan := completedMonitor(model.Monitor{Type: "TCP", MaxRetries: 1, MaxRetriesDown: 1})
	s.at(position).health.observe(verdict{}, plan, nil)
	s.at(position).health.observe(verdict{cause: "connection refused"}, plan, nil)
	s.at(position).health.observe(verdict{}, plan, nil)
}

func (s *service) sharesOf(t *testing.T) []int {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var shares []int
	for _, c := range s.usable(s.snapshot.Load(), nil, time.Now()) {
		shares = append(shares, c.weight)
	}
	return shares
}

// TestLB13SlowStart follows the share of a member over the slow start. It was
// down for a moment in one case, for a week in the other (incident 23).
func TestLB13SlowStart(t *testing.T) {
	for name, away := range map[string]time.Duration{"ShortDown": 0, "Incident23LongDown": 7 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testService(t, Config{SlowStart: 10 * time.Second}, nil, 2)
				if diff := cmp.Diff([]int{100, 100}, s.sharesOf(t)); diff != "" {
					t.Fatalf("at the start of the process (-want +got):\n%s", diff)
				}
				plan := completedMonitor(model.Monitor{Type: "TCP", MaxRetries: 1, MaxRetriesDown: 1})
				s.at(0).health.observe(verdict{cause: "connection refused"}, plan, nil)
				time.Sleep(away)
				s.at(0).health.observe(verdict{}, plan, nil)
				var got []int
				for range 12 {
					got = append(got, s.sharesOf(t)[0])
					time.Sleep(time.Second)
				}
				if diff := cmp.Diff([]int{1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 100}, got); diff != "" {
					t.Errorf("shares, second by second (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestLB13WhoStartsSlowly(t *testing.T) {
	cases := map[string]struct {
		reason string
		cfg    Config
		method model.Algorithm
		do     func(*service)
		want   []int
	}{
		"Start":      {reason: "a process that starts has nobody to spare", want: []int{100, 100}},
		"FirstCheck": {reason: "the first good check ends no failure", do: func(s *service) { s.at(0).health.observe(verdict{}, model.Monitor{}, nil) }, want: []int{100, 100}},
		"Recovered":  {reason: "a failure is over", do: func(s *service) { s.comeBack(0) }, want: []int{1, 100}},
		"All":        {reason: "everybody recovers at once: shares stay even", do: func(s *service) { s.comeBack(0); s.comeBack(1) }, want: []int{1, 1}},
		"Added": {
			reason: "round robin gives a new member no more than its share",
			do:     func(s *service) { s.apply(withMember(s.without(), 9)) }, want: []int{100, 100, 100},
		},
		"AddedThenFailed": {
			reason: "a member that was added while serving recovers like any other",
			do:     func(s *service) { s.apply(withMember(s.without(), 9)); s.comeBack(2) }, want: []int{100, 100, 1},
		},
		"LB05Added": {
			reason: "under least connections a new member would get everything", method: model.LeastConnections,
			do: func(s *service) { s.apply(withMember(s.without(), 9)) }, want: []int{100, 100, 1},
		},
		"LB08Hash": {reason: "proxies that hash have to agree", method: model.SourceIP, do: func(s *service) { s.comeBack(0) }, want: []int{100, 100}},
		"Off":      {reason: "nobody wants it", cfg: Config{SlowStart: -1}, do: func(s *service) { s.comeBack(0) }, want: []int{100, 100}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testService(t, tc.cfg, func(l *model.Listener) { l.Pool.Algorithm = tc.method }, 2)
				if tc.do != nil {
					tc.do(s)
				}
				if diff := cmp.Diff(tc.want, s.sharesOf(t)); diff != "" {
					t.Errorf("%s: shares (-want +got):\n%s", tc.reason, diff)
				}
			})
		})
	}
}

// withMember adds 10.0.0.n.
func withMember(l model.Listener, n byte) model.Listener {
	l.Pool.Members = append(l.Pool.Members, model.Member{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, n}), 8080), Weight: 1})
	return l
}

// TestLB13NoDipAfterwards: round robin is even again at once when the slow
// start is over, without a burst to make up for it.
func TestLB13NoDipAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testService(t, Config{Random: func() uint64 { return 0 }}, nil, 2)
		s.comeBack(0)
		s.picks(200, client)
		time.Sleep(5 * time.Second)
		s.picks(200, client)
		time.Sleep(5 * time.Second)
		got := s.picks(20, client)
		if n := strings.Count(got, "0"); n < 9 || n > 11 {
			t.Errorf("picked %s after the slow start, want each about ten times", got)
		}
	})
}

// TestLB05NoFlood: of the connections that come while a new member of a least
// connections pool has none, it gets no more than its growing share.
func TestLB05NoFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testService(t, Config{Random: func() uint64 { return 0 }}, func(l *model.Listener) { l.Pool.Algorithm = model.LeastConnections }, 4)
		for range 400 {
			s.choose(client(0), nil, &nobody{})
		}
		s.apply(withMember(s.without(), 9))
		for range 10 { // 100 connections over 10 s
			for range 10 {
				s.choose(client(0), nil, &nobody{})
			}
			time.Sleep(time.Second)
		}
		if got := s.at(4).links.len(); got < 10 || got > 92 {
			t.Errorf("the new member got %d of 100 connections, want some and not nearly all", got)
		}
		for range 20 {
			s.choose(client(0), nil, &nobody{})
		}
		before := s.at(4).links.len()
		if before < 20 {
			t.Errorf("after the slow start it got %d, want the most", before)
		}
	})
}
