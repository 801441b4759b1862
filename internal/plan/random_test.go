package plan_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// cases is how many random cases a law is tried on. Case n is made from seed n.
const cases = 2000

// dice makes balancers from few values, so that two of them share some parts.
type dice struct{ *rand.Rand }

func seeded(seed int) dice { return dice{rand.New(rand.NewPCG(uint64(seed), 1))} }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// want returns a balancer as a Service might ask for it, in canonical form.
func (d dice) want() model.Balancer {
	b := model.Balancer{
		Key:       model.Key{Namespace: "shop", Name: "web"},
		UID:       pick(d, "uid-1", "uid-1", "uid-1", "uid-2"),
		Addresses: pick(d, addrs("127.77.0.4"), addrs("127.77.0.5"), addrs("127.77.0.4", "fd00::4"), addrs("fd00::4", "127.77.0.4")),
	}
	for _, p := range ports() {
		if d.IntN(2) == 0 {
			b.Listeners = append(b.Listeners, d.listener(p))
		}
	}
	return b.Normalize()
}

// have returns what a backend may hold: nothing, leftovers, another owner's, a
// balancer nobody signed, listeners without pools.
func (d dice) have() model.Observed {
	switch d.IntN(10) {
	case 0:
		return model.Observed{}
	case 1:
		return model.Observed{Exists: true}
	}
	o := model.Observed{Exists: true, Balancer: d.want()}
	if d.IntN(6) == 0 {
		o.Balancer.UID = ""
	}
	for i, l := range o.Balancer.Listeners {
		if d.IntN(6) == 0 {
			o.Poolless = append(o.Poolless, l.Port)
			o.Balancer.Listeners[i].Pool = model.Pool{}
		}
	}
	d.Shuffle(len(o.Poolless), func(i, j int) { o.Poolless[i], o.Poolless[j] = o.Poolless[j], o.Poolless[i] })
	return o
}

func ports() []model.Port {
	return []model.Port{
		{Protocol: model.TCP, Number: 80},
		{Protocol: model.UDP, Number: 80},
		{Protocol: model.TCP, Number: 443},
		{Protocol: model.UDP, Number: 53},
	}
}

func (d dice) listener(p model.Port) model.Listener {
	l := model.Listener{
		Port:         p,
		Name:         pick(d, "http", "web", ""),
		AllowedCIDRs: pick(d, nil, nil, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}),
		Timeouts: model.Timeouts{
			ClientData:    pick(d, 0, 50*time.Second, 70*time.Second),
			MemberConnect: pick(d, 0, time.Second),
			MemberData:    pick(d, 0, time.Minute),
			TCPInspect:    pick(d, 0, time.Millisecond),
			UDPIdle:       pick(d, 0, time.Minute),
			Drain:         pick(d, 0, model.CutAtOnce, time.Minute),
		},
		Pool: model.Pool{
			Algorithm:     pick(d, "", model.RoundRobin, model.SourceIP),
			ProxyProtocol: pick(d, model.ProxyNone, model.ProxyV2),
			Affinity:      pick(d, 0, 3*time.Hour),
			Monitor:       d.monitor(),
		},
	}
	if d.IntN(2) == 0 {
		n := pick(d, -1, 100)
		l.ConnectionLimit = &n
	}
	for _, host := range []string{"10.0.0.7:8080", "10.0.0.8:8080", "10.0.0.9:8080", "[fd00::9]:8080"} {
		if d.IntN(2) == 0 {
			m := model.Member{Address: netip.MustParseAddrPort(host), Name: pick(d, "a", "b", ""), Weight: d.IntN(3)}
			l.Pool.Members = append(l.Pool.Members, m)
		}
	}
	return l
}

func (d dice) monitor() model.Monitor {
	if d.IntN(2) == 0 {
		return model.Monitor{}
	}
	return model.Monitor{
		Type: pick(d, "TCP", "HTTP"), Port: pick[uint16](d, 0, 10256), Path: pick(d, "", "/healthz"),
		Delay: pick(d, 0, 5*time.Second), Timeout: pick(d, 0, 3*time.Second),
		MaxRetries: d.IntN(3), MaxRetriesDown: d.IntN(3),
	}
}

// scrambled returns the same balancer with its lists in another order, other
// names, and settings for monitors that are none.
func (d dice) scrambled(b model.Balancer) model.Balancer {
	b = b.Normalize()
	d.Shuffle(len(b.Listeners), func(i, j int) { b.Listeners[i], b.Listeners[j] = b.Listeners[j], b.Listeners[i] })
	for i := range b.Listeners {
		b.Listeners[i].Name = pick(d, "x", "y")
		if b.Listeners[i].Pool.Monitor.Type == "" {
			b.Listeners[i].Pool.Monitor.Delay = pick(d, time.Second, time.Minute)
		}
		m := b.Listeners[i].Pool.Members
		d.Shuffle(len(m), func(i, j int) { m[i], m[j] = m[j], m[i] })
		for j := range m {
			m[j].Name = pick(d, "x", "y")
		}
	}
	return b
}

// nameless returns a copy without the names, which are shown and never compared.
func nameless(b model.Balancer) model.Balancer {
	b = b.Normalize()
	for i := range b.Listeners {
		b.Listeners[i].Name = ""
		for j := range b.Listeners[i].Pool.Members {
			b.Listeners[i].Pool.Members[j].Name = ""
		}
	}
	return b
}

func addrs(text ...string) []netip.Addr {
	var list []netip.Addr
	for _, s := range text {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

func clone(o model.Observed) model.Observed {
	o.Balancer = o.Balancer.Normalize()
	o.Poolless = slices.Clone(o.Poolless)
	return o
}
