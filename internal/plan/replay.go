package plan

import (
	"slices"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// Replay returns what a backend holds after it has carried out the steps of a
// plan. It is what applying means, without a backend: creating what is there
// and updating what is not both leave the object as wanted, deleting what is
// absent changes nothing, deleting a parent takes its children along, and a
// child without its parent is not created. A plan's steps may be cut to a
// prefix: that is the state after an apply that stopped there.
//
// Deletions are meant for the owner that the plan observed: where another
// one's balancer stands by now, they do nothing, so a plan that replaced it
// can be replayed twice.
//
// Health stays as it was for the ports that remain. Neither argument is
// changed or shared with the result.
func Replay(have model.Observed, p Plan) model.Observed {
	have = canonicalObserved(have)
	have.Health = slices.Clone(have.Health)
	r := replay{plan: p, state: have}
	for _, s := range p.Steps {
		r.step(s)
	}
	r.state.Health = slices.DeleteFunc(r.state.Health, func(h model.PortHealth) bool {
		_, there := r.state.Balancer.Find(h.Port)
		return !there
	})
	return r.state
}

type replay struct {
	plan  Plan
	state model.Observed
}

func (r *replay) step(s Step) {
	if s.Verb == Delete {
		if !otherOwner(r.plan.Have.Balancer.UID, r.state.Balancer.UID) {
			r.delete(s)
		}
		return
	}
	if s.Kind == LoadBalancer {
		r.setBalancer()
		return
	}
	want, ok := r.plan.Want.Find(s.Port)
	if !ok || !r.state.Exists {
		return
	}
	if s.Kind == Listener {
		r.setListener(want)
		return
	}
	if have := r.listener(s.Port); have != nil {
		r.setPart(s, want, have)
	}
}

func (r *replay) setBalancer() {
	b := &r.state.Balancer
	r.state.Exists = true
	b.Key, b.UID = r.plan.Want.Key, r.plan.Want.UID
	if len(r.plan.Want.Addresses) > 0 {
		b.Addresses = slices.Clone(r.plan.Want.Addresses)
	}
}

// setListener sets a listener's own settings; a new one has no pool yet.
func (r *replay) setListener(want model.Listener) {
	have := r.listener(want.Port)
	if have == nil {
		r.addListener(want.Port)
		have = r.listener(want.Port)
	}
	pool := have.Pool
	*have = want
	have.Pool = pool
	have.AllowedCIDRs = slices.Clone(want.AllowedCIDRs)
}

func (r *replay) addListener(p model.Port) {
	b := &r.state.Balancer
	i, _ := slices.BinarySearchFunc(b.Listeners, p, comparePort)
	b.Listeners = slices.Insert(b.Listeners, i, model.Listener{Port: p})
	r.addPoolless(p)
}

// setPart sets a pool, or something of a pool that is there.
func (r *replay) setPart(s Step, want model.Listener, have *model.Listener) {
	switch {
	case s.Kind == Pool:
		members, monitor := have.Pool.Members, have.Pool.Monitor
		have.Pool = want.Pool
		have.Pool.Members, have.Pool.Monitor = members, monitor
		r.forgetPoolless(s.Port)
	case !hasPool(r.state, s.Port):
	case s.Kind == HealthMonitor:
		have.Pool.Monitor = want.Pool.Monitor
	case s.Kind == MemberKind:
		if m, ok := find(want.Pool.Members, model.Member{Address: s.Member}); ok {
			have.Pool.Members = withMember(have.Pool.Members, m)
		}
	}
}

// withMember sets a member in a sorted slice, in place where it can.
func withMember(sorted []model.Member, m model.Member) []model.Member {
	i, there := slices.BinarySearchFunc(sorted, m, compareMembers)
	if !there {
		return slices.Insert(sorted, i, m)
	}
	sorted[i] = m
	return sorted
}

func (r *replay) delete(s Step) {
	switch s.Kind {
	case LoadBalancer:
		r.state = model.Observed{}
	case Listener:
		r.state.Balancer.Listeners = slices.DeleteFunc(r.state.Balancer.Listeners,
			func(l model.Listener) bool { return l.Port == s.Port })
		r.forgetPoolless(s.Port)
	case Pool, HealthMonitor, MemberKind:
		if have := r.listener(s.Port); have != nil {
			r.deletePart(s, have)
		}
	}
}

func (r *replay) deletePart(s Step, have *model.Listener) {
	switch s.Kind {
	case Pool:
		have.Pool = model.Pool{}
		r.addPoolless(s.Port)
	case HealthMonitor:
		have.Pool.Monitor = model.Monitor{}
	case MemberKind:
		have.Pool.Members = slices.DeleteFunc(have.Pool.Members,
			func(m model.Member) bool { return m.Address == s.Member })
	case LoadBalancer, Listener:
	}
}

// listener returns the listener of a port, to be changed in place, or nil.
func (r *replay) listener(p model.Port) *model.Listener {
	i, ok := slices.BinarySearchFunc(r.state.Balancer.Listeners, p, comparePort)
	if !ok {
		return nil
	}
	return &r.state.Balancer.Listeners[i]
}

func (r *replay) addPoolless(p model.Port) {
	i, there := slices.BinarySearchFunc(r.state.Poolless, p, model.Port.Compare)
	if !there {
		r.state.Poolless = slices.Insert(r.state.Poolless, i, p)
	}
}

func (r *replay) forgetPoolless(p model.Port) {
	r.state.Poolless = slices.DeleteFunc(r.state.Poolless, func(o model.Port) bool { return o == p })
}

func comparePort(l model.Listener, p model.Port) int { return l.Port.Compare(p) }
