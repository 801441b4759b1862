// Package providertest runs the contract of a provider, one sentence after the
// other, against any provider that a harness can build: the one in memory, the
// proxy of this process, a simulated cloud, a real one. It knows nothing of
// what is behind the provider but what the harness tells it, and it prepares or
// repairs nothing there by itself.
package providertest

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/provider"
)

// T is what a sentence needs of a test. *testing.T is one; the suite's own
// test has another, which records failures.
type T interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Harness is a fresh provider whose backend holds nothing, and the means to
// look and reach behind it.
type Harness struct {
	Provider provider.Provider
	// Snapshot returns the whole backend as text: equal states, equal texts.
	Snapshot func() string
	// Addresses are four that the provider can serve at. Empty where the
	// backend chooses (provider.FromBackend).
	Addresses []netip.Addr
	// Ports are three port numbers, ascending, that are free at all addresses.
	Ports []uint16
	// Members are two places to send traffic to; nothing needs to answer there.
	Members []netip.AddrPort
	// Block keeps a port of a key from being served until release is
	// called, as another program that listens there would.
	Block func(b model.Balancer, p model.Port) (release func())
	// Disturb changes the backend's state of a key that was applied, other
	// than by the provider.
	Disturb func(b model.Balancer)
	// Patience is how long the backend may take to show or tell a change.
	Patience time.Duration
}

// Sentence is one sentence of the contract, with its proof.
type Sentence struct {
	Text  string
	prove func(c check)
}

// Prove fails t if a fresh provider breaks the sentence.
func (s Sentence) Prove(t T, h Harness) {
	t.Helper()
	s.prove(check{T: t, Harness: h})
}

// Run proves every sentence as a sub-test, each with a provider of its own.
func Run(t *testing.T, fresh func(t *testing.T) Harness) {
	for _, s := range Sentences() {
		t.Run(s.Text, func(t *testing.T) { s.Prove(t, fresh(t)) })
	}
}

// Sentences returns the whole contract.
func Sentences() []Sentence {
	return slices.Concat(reading(), writing(), failing(), living())
}

// check is the proof of one sentence on one provider.
type check struct {
	T
	Harness
}

// keys are four whose names a careless backend might confuse.
func keys() []model.Key {
	return []model.Key{
		{Namespace: "shop", Name: "web"},
		{Namespace: "shop", Name: "web-2"},
		{Namespace: "shop-2", Name: "web"},
		{Namespace: "blog", Name: "web"},
	}
}

// plain returns the i-th balancer: two TCP ports, two members, nothing set.
func (c check) plain(i int) model.Balancer {
	b := model.Balancer{Key: keys()[i], UID: "uid-" + keys()[i].String()}
	if len(c.Addresses) > 0 {
		b.Addresses = []netip.Addr{c.Addresses[i]}
	}
	for _, n := range c.Ports[:2] {
		b.Listeners = append(b.Listeners, model.Listener{
			Port: model.Port{Protocol: model.TCP, Number: n},
			Pool: model.Pool{Members: []model.Member{
				{Address: c.Members[0], Name: "a", Weight: 1}, {Address: c.Members[1], Name: "b", Weight: 2},
			}},
		})
	}
	return b.Normalize()
}

// rich returns the same with every option set, and a port for every protocol.
func (c check) rich(i int) model.Balancer {
	b := c.plain(i)
	limit := 100
	l := &b.Listeners[0]
	l.AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	l.ConnectionLimit = &limit
	l.Timeouts = model.Timeouts{
		ClientData: 50 * time.Second, MemberConnect: 5 * time.Second,
		MemberData: 50 * time.Second, TCPInspect: time.Second,
	}
	l.Pool.Algorithm, l.Pool.ProxyProtocol = model.LeastConnections, model.ProxyV2
	l.Pool.Monitor = model.Monitor{
		Type: "TCP", Delay: 5 * time.Second, Timeout: 3 * time.Second, MaxRetries: 2, MaxRetriesDown: 3,
	}
	b.Listeners[1].Pool.Affinity = time.Hour
	for _, p := range c.Provider.Traits().Protocols {
		if p != model.TCP {
			more := model.Listener{Port: model.Port{Protocol: p, Number: c.Ports[2]}}
			more.Pool.Members = slices.Clone(b.Listeners[0].Pool.Members)
			b.Listeners = append(b.Listeners, more)
		}
	}
	return b.Normalize()
}

func (c check) observe(k model.Key) model.Observed {
	c.Helper()
	o, err := c.Provider.Observe(c.Context(), k)
	if err != nil {
		c.Fatalf("observing %s: %v", k, err)
	}
	return o
}

func (c check) apply(p plan.Plan) []model.PortError {
	c.Helper()
	failed, err := c.Provider.Apply(c.Context(), p)
	if err != nil {
		c.Fatalf("applying: %v\n%s", err, p.Text())
	}
	return failed
}

// bring applies what is missing, as a controller does, and returns the plan.
func (c check) bring(want model.Balancer) plan.Plan {
	c.Helper()
	p := plan.Diff(want, c.observe(want.Key))
	if failed := c.apply(p); len(failed) > 0 {
		c.Fatalf("ports are not served: %v\n%s", failed, p.Text())
	}
	return p
}

func (c check) remove(k model.Key) plan.Plan {
	c.Helper()
	p := plan.Remove(k, c.observe(k))
	c.apply(p)
	return p
}

// settled fails the test unless the backend holds what is wanted.
func (c check) settled(want model.Balancer) {
	c.Helper()
	o := c.observe(want.Key)
	if p := plan.Diff(want, o); !p.Empty() || o.Balancer.UID != want.UID || o.Balancer.Key != want.Key {
		c.Fatalf("the backend holds (uid %q)\n%sand not what is wanted (uid %q), there remain\n%s",
			o.Balancer.UID, o.Balancer.Text(), want.UID, p.Text())
	}
}

// unchanged fails the test unless the backend is as it was.
func (c check) unchanged(before, by string) {
	c.Helper()
	if after := c.Snapshot(); after != before {
		c.Fatalf("%s changes the backend from\n%s\nto\n%s", by, before, after)
	}
}

func (c check) list() []model.Key {
	c.Helper()
	list, err := c.Provider.List(c.Context())
	if err != nil {
		c.Fatalf("listing: %v", err)
	}
	return list
}

// run lets the provider run until the test ends, and returns what it tells.
// A key is told once until it is read.
func (c check) run() <-chan model.Key {
	told := make(chan model.Key, 64)
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan error, 1)
	go func() {
		done <- c.Provider.Run(ctx, func(k model.Key) {
			select {
			case told <- k:
			default:
			}
		})
	}()
	c.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.Errorf("run ended with %v", err)
		}
	})
	return told
}

// eventually fails the test unless is returns true before Patience ends.
func (c check) eventually(what string, is func() bool) {
	c.Helper()
	deadline := time.NewTimer(c.Patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline.C:
			c.Fatalf("within %v it is not so that %s", c.Patience, what)
		}
	}
}

func canceled(err error) bool { return errors.Is(err, context.Canceled) }
