package memory

import (
	"net/netip"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
)

// FailNext makes the next n applies fail with err, before their first step.
// It queues behind earlier faults.
func (b *Backend) FailNext(n int, err error) {
	for range n {
		b.FailAfter(0, err)
	}
}

// FailAfter makes one apply, the next that no earlier fault takes, carry out so
// many of its steps and then fail with err.
func (b *Backend) FailAfter(steps int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, fault{steps, err})
}

// Block makes a port of a key impossible to serve until release is called.
// Run tells both.
func (b *Backend) Block(key model.Key, port model.Port) (release func()) {
	b.setBlocked(place{key, port}, true)
	return func() { b.setBlocked(place{key, port}, false) }
}

func (b *Backend) setBlocked(at place, blocked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blocked[at] == blocked {
		return
	}
	b.blocked[at] = blocked
	b.tell(at.key)
}

// SetDown says whether a member fails its checks, in every pool that has it.
func (b *Backend) SetDown(member netip.AddrPort, down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down[member] == down {
		return
	}
	b.down[member] = down
	for _, k := range b.keys() {
		if hasMember(b.held[k].Balancer, member) {
			b.tell(k)
		}
	}
}

func hasMember(b model.Balancer, member netip.AddrPort) bool {
	for _, l := range b.Listeners {
		for _, m := range l.Pool.Members {
			if m.Address == member {
				return true
			}
		}
	}
	return false
}

// Change changes what is held for a key as someone else would, behind the
// provider's back: f gets a copy and returns what is held from now on; nothing
// is, when it does not exist. Health is not kept. It counts as no write.
func (b *Backend) Change(key model.Key, f func(model.Observed) model.Observed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := plan.Replay(f(plan.Replay(b.held[key], plan.Plan{})), plan.Plan{})
	o.Health = nil
	if o.Exists {
		b.held[key] = o
	} else {
		delete(b.held, key)
	}
	b.tell(key)
}

// Writes returns how many steps were carried out so far.
func (b *Backend) Writes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.writes
}

// tell notes that a key changed. The caller holds the lock.
func (b *Backend) tell(key model.Key) {
	b.changed = append(b.changed, key)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}
