// Package memory is a provider whose backend is a map: the whole contract of a
// provider and nothing behind it. Tests of what drives a provider stand on it;
// they make it fail where they like and read its whole state as text. It
// decides nothing by chance or by the clock, and serves no traffic.
package memory

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/provider"
)

// ReasonPortBlocked is the reason of the port error of a blocked port.
const ReasonPortBlocked = "PortBlocked"

// Config is what a backend is made from.
type Config struct {
	// Traits are what the provider says of itself.
	Traits provider.Traits
	// Range is where addresses come from, the lowest free one first, for
	// balancers that want none (provider.FromBackend). The zero prefix gives none.
	Range netip.Prefix
}

// Backend is a provider in memory. All methods may be called concurrently.
type Backend struct {
	config Config

	mu      sync.Mutex
	held    map[model.Key]model.Observed
	blocked map[place]bool
	down    map[netip.AddrPort]bool
	faults  []fault
	writes  int
	// changed are the keys to be told, in the order of their changes.
	changed []model.Key
	// wake holds a token while changed is not empty.
	wake chan struct{}
}

// place is one port of one key.
type place struct {
	key  model.Key
	port model.Port
}

// fault is what becomes of one Apply: it carries out so many steps, then fails.
type fault struct {
	steps int
	err   error
}

// New returns an empty backend.
func New(c Config) *Backend {
	return &Backend{
		config:  c,
		held:    map[model.Key]model.Observed{},
		blocked: map[place]bool{},
		down:    map[netip.AddrPort]bool{},
		wake:    make(chan struct{}, 1),
	}
}

// Traits returns the traits of the configuration.
func (b *Backend) Traits() provider.Traits {
	t := b.config.Traits
	t.Protocols = slices.Clone(t.Protocols)
	return t
}

// Observe returns what is held for a key. Members are up unless SetDown said
// otherwise, and a blocked port has its error in the health.
func (b *Backend) Observe(ctx context.Context, key model.Key) (model.Observed, error) {
	if err := ctx.Err(); err != nil {
		return model.Observed{}, fmt.Errorf("observing %s: %w", key, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// A plan without steps copies.
	o := plan.Replay(b.held[key], plan.Plan{})
	for _, l := range o.Balancer.Listeners {
		o.Health = append(o.Health, b.health(key, l))
	}
	return o, nil
}

func (b *Backend) health(key model.Key, l model.Listener) model.PortHealth {
	h := model.PortHealth{Port: l.Port}
	if b.blocked[place{key, l.Port}] {
		h.Error = blockedError(l.Port)
	}
	for _, m := range l.Pool.Members {
		health := model.MemberHealth{Address: m.Address, State: model.MemberUp}
		if b.down[m.Address] {
			health.State, health.Cause = model.MemberDown, "connection refused"
		}
		h.Members = append(h.Members, health)
	}
	return h
}

func blockedError(p model.Port) model.PortError {
	return model.PortError{Port: p, Reason: ReasonPortBlocked, Message: fmt.Sprintf("Port %s is blocked; release it.", p)}
}

// Apply replays the steps on what is held, unless it was told to fail.
func (b *Backend) Apply(ctx context.Context, p plan.Plan) ([]model.PortError, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("applying the plan of %s: %w", p.Key, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	fail := b.takeFault()
	if fail.err != nil {
		p.Steps = p.Steps[:min(fail.steps, len(p.Steps))]
	}
	b.replay(p)
	if fail.err != nil {
		return nil, fmt.Errorf("applying the plan of %s: %w", p.Key, fail.err)
	}
	var failed []model.PortError
	for _, l := range b.held[p.Key].Balancer.Listeners {
		if b.blocked[place{p.Key, l.Port}] {
			failed = append(failed, blockedError(l.Port))
		}
	}
	return failed, nil
}

func (b *Backend) takeFault() fault {
	if len(b.faults) == 0 {
		return fault{}
	}
	first := b.faults[0]
	b.faults = b.faults[1:]
	return first
}

func (b *Backend) replay(p plan.Plan) {
	if p.Empty() {
		return
	}
	b.writes += len(p.Steps)
	o := plan.Replay(b.held[p.Key], p)
	if !o.Exists {
		delete(b.held, p.Key)
		return
	}
	if len(o.Balancer.Addresses) == 0 {
		o.Balancer.Addresses = b.freeAddress()
	}
	b.held[p.Key] = o
}

// freeAddress returns the lowest address of the range that no balancer has.
func (b *Backend) freeAddress() []netip.Addr {
	taken := map[netip.Addr]bool{}
	for _, o := range b.held {
		for _, a := range o.Balancer.Addresses {
			taken[a] = true
		}
	}
	for a := b.config.Range.Addr(); b.config.Range.Contains(a); a = a.Next() {
		if !taken[a] {
			return []netip.Addr{a}
		}
	}
	return nil
}

// List returns the keys that are held, sorted.
func (b *Backend) List(ctx context.Context) ([]model.Key, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("listing balancers: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.keys(), nil
}

func (b *Backend) keys() []model.Key {
	return slices.SortedFunc(maps.Keys(b.held), model.Key.Compare)
}

// Run tells what Block, SetDown and Change changed, also before it ran, until
// ctx ends. It returns nil. Only one Run may be under way.
func (b *Backend) Run(ctx context.Context, changed func(model.Key)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.wake:
		}
		b.mu.Lock()
		keys := b.changed
		b.changed = nil
		b.mu.Unlock()
		for _, k := range keys {
			changed(k)
		}
	}
}

// Text returns everything that is held, sorted by key: equal states have equal texts.
func (b *Backend) Text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var text strings.Builder
	for _, k := range b.keys() {
		o := b.held[k]
		fmt.Fprintf(&text, "uid %q ", o.Balancer.UID)
		text.WriteString(o.Balancer.Text())
		if len(o.Poolless) > 0 {
			fmt.Fprintf(&text, "  without a pool: %v\n", o.Poolless)
		}
	}
	return text.String()
}
