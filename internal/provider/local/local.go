// Package local is the provider of one machine: what balances is the proxy in
// this process, at addresses that the machine has. It keeps what was asked for
// and gives the proxy whole wanted sets; it opens no socket itself, chooses no
// address, fills in no default, and remembers nothing over a restart, as the
// proxy does not either.
package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/provider"
)

// DataPlane is what the provider needs of the proxy (internal/proxy). All
// methods may be called concurrently.
type DataPlane interface {
	// Set makes the whole wanted set of listeners of one owner true, without
	// touching what is unchanged; nil listeners remove the owner. A port that
	// cannot be served, or not quite as asked, is returned, does not stop the
	// others, and is tried again by the next Set and by Run. Options that
	// are not set get the data plane's defaults.
	Set(owner model.Key, uid string, addresses []netip.Addr, listeners []model.Listener) []model.PortError
	// State returns what is served for an owner, with its health.
	State(owner model.Key) model.Observed
	// Run serves until ctx ends, and calls changed when the health or an
	// error of an owner changed outside Set.
	Run(ctx context.Context, changed func(model.Key)) error
}

// Provider is the local provider.
type Provider struct {
	plane DataPlane

	mu sync.Mutex
	// asked is what the plans made so far. The data plane knows only the part
	// that is served: no balancer without listeners, no listener without a pool.
	asked map[model.Key]model.Observed
}

// New returns a provider that serves by a data plane which nobody else sets.
func New(plane DataPlane) *Provider {
	return &Provider{plane: plane, asked: map[model.Key]model.Observed{}}
}

// Traits says that addresses come from pools and that clients inside the
// cluster must go through the proxy: only it has the options.
func (p *Provider) Traits() provider.Traits {
	return provider.Traits{
		Name:      "local",
		Addresses: provider.FromPools,
		Protocols: []model.Protocol{model.TCP, model.UDP},
		ProxyMode: true,
		Ephemeral: true,
	}
}

// Observe returns what was asked for a key, with the proxy's view of its health.
func (p *Provider) Observe(ctx context.Context, key model.Key) (model.Observed, error) {
	if err := ctx.Err(); err != nil {
		return model.Observed{}, fmt.Errorf("observing %s: %w", key, err)
	}
	o := p.get(key)
	if o.Exists {
		o.Health = p.plane.State(key).Health
	}
	return o, nil
}

// get returns a copy of what was asked for a key.
func (p *Provider) get(key model.Key) model.Observed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return plan.Replay(p.asked[key], plan.Plan{})
}

// Apply replays the plan on what was asked and gives the proxy the outcome as
// one set: the proxy makes before it breaks, port by port. A plan without steps
// sets again what is there, which tries failed ports once more.
func (p *Provider) Apply(ctx context.Context, pl plan.Plan) ([]model.PortError, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("applying the plan of %s: %w", pl.Key, err)
	}
	have := p.get(pl.Key)
	next := plan.Replay(have, pl)
	p.put(pl.Key, next)
	if !have.Exists && !next.Exists {
		return nil, nil
	}
	// The data plane is called without the lock: it may be telling a change to
	// someone who observes.
	b := next.Balancer
	return p.plane.Set(pl.Key, b.UID, b.Addresses, served(next)), nil
}

func (p *Provider) put(key model.Key, o model.Observed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.Exists {
		p.asked[key] = o
	} else {
		delete(p.asked, key)
	}
}

// List returns the keys that something was asked for, sorted.
func (p *Provider) List(ctx context.Context) ([]model.Key, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("listing balancers: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Keys(p.asked), model.Key.Compare), nil
}

// Run runs the data plane until ctx ends. When it ends by itself before, its
// error is returned, or one that says so.
func (p *Provider) Run(ctx context.Context, changed func(model.Key)) error {
	err := p.plane.Run(ctx, changed)
	switch {
	case ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())):
		return nil
	case err == nil:
		return errors.New("serving: the data plane ended by itself")
	}
	return fmt.Errorf("serving: %w", err)
}
