package proxy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// candidates returns members a, b, c … with these weights.
func candidates(weights ...int) []candidate {
	all := make([]candidate, len(weights))
	for i, w := range weights {
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 8080)
		all[i] = candidate{newMember(a), w}
	}
	return all
}

// name returns a member's letter.
func name(from []candidate, m *member) string {
	for i, c := range from {
		if c.member == m {
			return string(rune('a' + i))
		}
	}
	return "?"
}

func TestLB01SmoothWeightedRoundRobin(t *testing.T) {
	from := candidates(5, 1, 1)
	var got strings.Builder
	for range 14 {
		got.WriteString(name(from, roundRobin{}.pick(from, netip.AddrPort{})))
	}
	if want := "aabacaaaabacaa"; got.String() != want {
		t.Errorf("picked %s, want %s", got.String(), want)
	}
}

// TestLB01EveryWindow checks random weights: in every window of as many picks
// as the weights' sum, each member is picked exactly its weight.
func TestLB01EveryWindow(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		weights := make([]int, 1+r.IntN(6))
		total := 0
		for i := range weights {
			weights[i] = 1 + r.IntN(9)
			total += weights[i]
		}
		from := candidates(weights...)
		var picks []*member
		for range 3 * total {
			picks = append(picks, roundRobin{}.pick(from, netip.AddrPort{}))
		}
		for start := range 2 * total {
			count := map[*member]int{}
			for _, m := range picks[start : start+total] {
				count[m]++
			}
			for i, c := range from {
				if count[c.member] != weights[i] {
					t.Fatalf("seed %d, weights %v, window at %d: member %d was picked %d times", seed, weights, start, i, count[c.member])
				}
			}
		}
	}
}

// service with members 10.0.0.0:8080, 10.0.0.1:8080 … of weight 1.
func testService(t *testing.T, cfg Config, change func(*model.Listener), members int) *service {
	t.Helper()
	l := listener(tcpPort(8080))
	for _, c := range candidates(make([]int, members)...) {
		l.Pool.Members = append(l.Pool.Members, model.Member{Address: c.address, Weight: 1})
	}
	if change != nil {
		change(&l)
	}
	s := newService(New(cfg), model.Key{Namespace: "shop", Name: "web"}, l)
	s.apply(l)
	return s
}

// without returns the service's listener without the members at these positions.
func (s *service) without(positions ...int) model.Listener {
	l := s.snapshot.Load().listener
	var kept []model.Member
	for i, m := range l.Pool.Members {
		gone := false
		for _, p := range positions {
			gone = gone || p == i
		}
		if !gone {
			kept = append(kept, m)
		}
	}
	l.Pool.Members = kept
	return l
}

func (s *service) weigh(position, weight int) model.Listener {
	l := s.without()
	l.Pool.Members[position].Weight = weight
	return l
}

type nobody struct{ reason Reason }

func (n *nobody) end(r Reason) { n.reason = r }

func client(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}), 5555)
}

// picks chooses members for one client after another, as their last octets.
func (s *service) picks(n int, from func(int) netip.AddrPort) string {
	var got strings.Builder
	for i := range n {
		x := &nobody{}
		m := s.choose(from(i), nil, x)
		if m == nil {
			got.WriteByte('-')
			continue
		}
		m.links.remove(x)
		fmt.Fprint(&got, m.address.Addr().As4()[3])
	}
	return got.String()
}

func TestLB02RandomStartThatSurvives(t *testing.T) {
	starts := map[string]bool{}
	for seed := range uint64(3) {
		s := testService(t, Config{Random: func() uint64 { return seed }}, nil, 3)
		starts[s.picks(1, client)] = true
	}
	if len(starts) != 3 {
		t.Errorf("three seeds begin with members %v, want three different ones", starts)
	}
	s := testService(t, Config{Random: func() uint64 { return 0 }}, nil, 3)
	got := s.picks(2, client)
	s.apply(s.without()) // an update that changes nothing
	if got += s.picks(4, client); got != "012012" {
		t.Errorf("picked %s around an update, want 012012", got)
	}
}

func TestLB03LeastConnections(t *testing.T) {
	s := testService(t, Config{}, func(l *model.Listener) { l.Pool.Algorithm = model.LeastConnections; l.Pool.Members[0].Weight = 2 }, 3)
	for range 8 {
		s.choose(client(0), nil, &nobody{}) // it stays
	}
	var got []int
	for _, m := range s.snapshot.Load().members {
		got = append(got, m.links.len())
	}
	if diff := cmp.Diff([]int{4, 2, 2}, got); diff != "" {
		t.Errorf("links by weight 2, 1, 1 (-want +got):\n%s", diff)
	}
}

// TestLB07ConsistentHash takes one of ten members away: only its clients move.
func TestLB07ConsistentHash(t *testing.T) {
	const clients = 2000
	s := testService(t, Config{}, func(l *model.Listener) { l.Pool.Algorithm = model.SourceIP }, 10)
	before := s.picks(clients, client)
	s.apply(s.without(3))
	after := s.picks(clients, client)
	moved := 0
	for i := range before {
		switch {
		case before[i] == '3':
			moved++
		case before[i] != after[i]:
			t.Fatalf("client %d moved from member %c to %c, though only member 3 went", i, before[i], after[i])
		}
	}
	if moved < clients/20 || moved > clients/5 {
		t.Errorf("member 3 of 10 had %d of %d clients", moved, clients)
	}
}

// TestLB08GoldenVectors must never change: another result reshuffles every
// client at an upgrade, and makes proxies of two versions disagree (incident 24).
func TestLB08GoldenVectors(t *testing.T) {
	mapped := func(i int) netip.AddrPort {
		c := client(i)
		return netip.AddrPortFrom(netip.AddrFrom16(c.Addr().As16()), c.Port())
	}
	cases := map[string]struct {
		reason    string
		algorithm model.Algorithm
		from      func(int) netip.AddrPort
		want      string
	}{
		"SourceIP":     {reason: "address only", algorithm: model.SourceIP, from: client, want: goldenSourceIP},
		"Mapped":       {reason: "a mapped address is the IPv4 address", algorithm: model.SourceIP, from: mapped, want: goldenSourceIP},
		"SourceIPPort": {reason: "address and port", algorithm: model.SourceIPPort, from: client, want: goldenSourceIPPort},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := testService(t, Config{}, func(l *model.Listener) { l.Pool.Algorithm = tc.algorithm }, 5)
			if got := s.picks(40, tc.from); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

const (
	goldenSourceIP     = "4022134044003412232002411120043320021200"
	goldenSourceIPPort = "2232142212134311441011112234313132302131"
)

func TestUnknownAlgorithmIsSaid(t *testing.T) {
	s := testService(t, Config{}, func(l *model.Listener) { l.Pool.Algorithm = "FASTEST" }, 2)
	if got := s.fault(); got.Reason != AlgorithmNotSupported {
		t.Errorf("fault %+v, want %s", got, AlgorithmNotSupported)
	}
	if got := s.picks(1, client); got == "-" {
		t.Error("an unknown algorithm serves nobody")
	}
}

func affine(d time.Duration) func(*model.Listener) {
	return func(l *model.Listener) { l.Pool.Affinity = d }
}

func same(int) netip.AddrPort { return client(7) }

func TestLB09Affinity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testService(t, Config{Random: func() uint64 { return 0 }}, affine(time.Minute), 3)
		first := s.picks(1, same)
		s.picks(1, client) // others go on
		time.Sleep(59 * time.Second)
		if got := s.picks(1, same); got != first {
			t.Errorf("within the time-out: %s, want %s", got, first)
		}
		// The time counts from the last new connection.
		time.Sleep(59 * time.Second)
		if got := s.picks(5, same); got != strings.Repeat(first, 5) {
			t.Errorf("refreshed by a connection: %s, want only %s", got, first)
		}
		time.Sleep(61 * time.Second)
		s.keepHouse(time.Now())
		if n := len(s.affinity.byClient); n != 0 {
			t.Errorf("%d clients are remembered after their time", n)
		}
		if got := s.picks(1, same); got == first {
			t.Error("after the time-out the client is still attached; round robin had another one next")
		}
	})
}

func TestLB09AffinityIsBounded(t *testing.T) {
	var a affinity
	a.lifetime = time.Hour
	m := newMember(netip.MustParseAddrPort("10.0.0.1:80"))
	now := time.Unix(0, 0)
	for i := range affinityEntries + 1 {
		var b [4]byte
		b[0], b[1], b[2], b[3] = 10, byte(i>>16), byte(i>>8), byte(i)
		a.remember(netip.AddrFrom4(b), m, now)
	}
	if len(a.byClient) != affinityEntries || a.byAge.Len() != affinityEntries {
		t.Errorf("%d clients are remembered, want %d", len(a.byClient), affinityEntries)
	}
	if a.byClient[netip.AddrFrom4([4]byte{10, 0, 0, 0})] != nil {
		t.Error("the client that was away longest is still remembered")
	}
}

func TestLB10AffinityTargetGone(t *testing.T) {
	cases := map[string]struct {
		reason string
		lose   func(s *service, position int)
		back   func(s *service, position int)
	}{
		"Down": {
			reason: "a member that is down is left, and does not pull back",
			lose:   func(s *service, i int) { s.snapshot.Load().members[i].health.down.Store(true) },
			back:   func(s *service, i int) { s.snapshot.Load().members[i].health.down.Store(false) },
		},
		"Draining": {
			reason: "weight 0 means no new traffic, attached clients included",
			lose:   func(s *service, i int) { s.apply(s.weigh(i, 0)) },
			back:   func(s *service, i int) { s.apply(s.weigh(i, 1)) },
		},
		"Removed": {
			reason: "a removed member is left",
			lose:   func(s *service, i int) { s.apply(s.without(i)) },
			back: func(s *service, i int) {
				l := s.without()
				l.Pool.Members = append(l.Pool.Members, model.Member{Address: candidates(1, 1, 1)[i].address, Weight: 1})
				s.apply(model.Balancer{Listeners: []model.Listener{l}}.Normalize().Listeners[0])
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := testService(t, Config{}, affine(time.Hour), 3)
			first := s.picks(1, same)
			position := int(first[0] - '0')
			tc.lose(s, position)
			second := s.picks(1, same)
			if second == first || second == "-" {
				t.Errorf("%s: still at %s", tc.reason, second)
			}
			tc.back(s, position)
			if got := s.picks(3, same); got != strings.Repeat(second, 3) {
				t.Errorf("%s: got %s after the return, want only %s", tc.reason, got, second)
			}
		})
	}
}

func TestLB11FailOpen(t *testing.T) {
	s := testService(t, Config{Random: func() uint64 { return 0 }}, nil, 3)
	members := s.snapshot.Load().members
	members[1].health.down.Store(true)
	if got := s.picks(4, client); strings.Contains(got, "1") {
		t.Errorf("picked %s though member 1 is down", got)
	}
	s.apply(s.weigh(2, 0)) // without checks a member is not down
	members = s.snapshot.Load().members
	members[1].health.down.Store(true)
	members[0].health.down.Store(true)
	got := s.picks(8, client)
	if strings.Contains(got, "2") || !strings.Contains(got, "0") || !strings.Contains(got, "1") {
		t.Errorf("with all members down picked %s, want both but never the draining one", got)
	}
}

func TestLB12NoMembers(t *testing.T) {
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080)))
	r.refused(8080)
	r.closedBy(tcpPort(8080), ReasonNoMember)
}

func TestLB15Draining(t *testing.T) {
	r := newRig(t, Config{DrainTimeout: time.Second, Random: func() uint64 { return 0 }})
	a, b := named(t, "a"), named(t, "b")
	l := listener(tcpPort(8080), a)
	r.set(l)
	c := r.dial(8080)
	read(t, c, 1)
	l = listener(tcpPort(8080), a, b)
	l.Pool.Members[0].Weight = 0
	r.set(l)
	for range 3 {
		if got := read(t, r.dial(8080), 1); got != "b" {
			t.Errorf("a new connection went to %q, want b", got)
		}
	}
	write(t, c, "x")
	if got := read(t, c, 1); got != "x" {
		t.Errorf("the draining member's connection echoed %q, want x", got)
	}
	mustReset(t, c)
	r.closedBy(tcpPort(8080), ReasonDrain)
}

// TestLB15DrainTimeOfTheListener: what the listener says is stronger than the
// proxy's own drain time, in both directions.
func TestLB15DrainTimeOfTheListener(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		drain  time.Duration
		own    time.Duration
		after  time.Duration
		want   Reason
	}{
		"Longer": {reason: "the listener asks for more time", drain: time.Minute, own: time.Second, after: 59 * time.Second, want: ReasonNone},
		"Over":   {reason: "its time is over", drain: time.Minute, own: time.Hour, after: time.Minute, want: ReasonDrain},
		"AtOnce": {reason: "the listener asks for none", drain: model.CutAtOnce, own: time.Hour, want: ReasonDrain},
		"Unset":  {reason: "the proxy's own time counts", own: time.Minute, after: time.Minute, want: ReasonDrain},
		"NotYet": {reason: "the proxy's own time counts", own: time.Minute, after: 59 * time.Second, want: ReasonNone},
		"Unsaid": {reason: "neither says a time: 300 s", after: 299 * time.Second, want: ReasonNone},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := testService(t, Config{DrainTimeout: tc.own}, func(l *model.Listener) { l.Timeouts.Drain = tc.drain }, 2)
				x := &nobody{}
				s.snapshot.Load().members[0].links.add(x)
				s.apply(s.weigh(0, 0))
				time.Sleep(tc.after)
				s.keepHouse(time.Now())
				if x.reason != tc.want {
					t.Errorf("%s: ended by %v, want %v", tc.reason, x.reason, tc.want)
				}
			})
		})
	}
}

// TestLB15DrainStartsOnce: reconciles in between do not put it off, and a
// member that returns keeps its connections.
func TestLB15DrainStartsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testService(t, Config{DrainTimeout: 10 * time.Second}, nil, 2)
		x, y := &nobody{}, &nobody{}
		m := s.snapshot.Load().members[0].member
		m.links.add(x)
		s.apply(s.weigh(0, 0))
		time.Sleep(6 * time.Second)
		s.apply(s.weigh(0, 0))
		s.keepHouse(time.Now())
		if x.reason != ReasonNone {
			t.Fatalf("ended by %v before the drain time", x.reason)
		}
		time.Sleep(4 * time.Second)
		s.keepHouse(time.Now())
		if x.reason != ReasonDrain {
			t.Errorf("ended by %v after the drain time, want %v", x.reason, ReasonDrain)
		}
		m.links.remove(x)
		m.links.add(y)
		s.apply(s.weigh(0, 1))
		time.Sleep(time.Hour)
		s.keepHouse(time.Now())
		if y.reason != ReasonNone {
			t.Errorf("a member that returned lost its connection by %v", y.reason)
		}
	})
}

func TestLB16RemovedMemberDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testService(t, Config{DrainTimeout: 10 * time.Second}, nil, 2)
		x := &nobody{}
		m := s.snapshot.Load().members[0].member
		m.links.add(x)
		m.health.down.Store(true)
		time.Sleep(time.Hour)
		s.keepHouse(time.Now())
		if x.reason != ReasonNone {
			t.Errorf("a member that is down lost its connection by %v", x.reason)
		}
		s.apply(s.without(0))
		time.Sleep(10 * time.Second)
		s.keepHouse(time.Now())
		if x.reason != ReasonDrain {
			t.Errorf("ended by %v, want %v", x.reason, ReasonDrain)
		}
		m.links.remove(x)
		s.keepHouse(time.Now())
		if len(s.members) != 1 {
			t.Errorf("%d members are known after the drain, want 1", len(s.members))
		}
	})
}

// TestLB18OneSnapshot changes weights together while picks go on: each pick
// must see either both weights of an update or none.
func TestLB18OneSnapshot(t *testing.T) {
	s := testService(t, Config{}, nil, 2)
	left, right := s.weigh(0, 0), s.weigh(1, 0)
	s.apply(left)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2000 {
			s.apply(right)
			s.apply(left)
		}
	}()
	for {
		select {
		case <-done:
			return
		default:
		}
		if got := s.picks(1, client); got == "-" {
			t.Fatal("a pick saw half of an update: no member had a weight")
		}
	}
}
