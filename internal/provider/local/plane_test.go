package local_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// plane is a data plane that only remembers what it was told.
type plane struct {
	mu      sync.Mutex
	sets    map[model.Key]model.Balancer
	blocked map[model.Port]bool
	calls   int
	changed chan model.Key
	// ends is what Run returns at once, when it is not nil.
	ends chan error
}

func newPlane() *plane {
	return &plane{
		sets: map[model.Key]model.Balancer{}, blocked: map[model.Port]bool{},
		changed: make(chan model.Key, 8), ends: make(chan error, 1),
	}
}

func (p *plane) Set(owner model.Key, uid string, addresses []netip.Addr, listeners []model.Listener) []model.PortError {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if listeners == nil {
		delete(p.sets, owner)
		return nil
	}
	b := model.Balancer{Key: owner, UID: uid, Addresses: addresses, Listeners: listeners}.Normalize()
	p.sets[owner] = b
	return p.errors(b)
}

func (p *plane) errors(b model.Balancer) []model.PortError {
	var failed []model.PortError
	for _, l := range b.Listeners {
		if p.blocked[l.Port] {
			failed = append(failed, model.PortError{Port: l.Port, Reason: "PortInUse", Message: "The port is in use; stop its user."})
		}
	}
	return failed
}

func (p *plane) State(owner model.Key) model.Observed {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.sets[owner]
	o := model.Observed{Exists: ok, Balancer: b}
	for _, e := range p.errors(b) {
		o.Health = append(o.Health, model.PortHealth{Port: e.Port, Error: e})
	}
	return o
}

func (p *plane) Run(ctx context.Context, changed func(model.Key)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-p.ends:
			return err
		case k := <-p.changed:
			changed(k)
		}
	}
}

func (p *plane) block(_ model.Balancer, port model.Port) (release func()) {
	set := func(to bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.blocked[port] = to
	}
	set(true)
	return func() { set(false) }
}

func (p *plane) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var text strings.Builder
	for _, k := range slices.SortedFunc(maps.Keys(p.sets), model.Key.Compare) {
		fmt.Fprintf(&text, "uid %s %s", p.sets[k].UID, p.sets[k].Text())
	}
	return text.String()
}
