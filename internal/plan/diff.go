package plan

import (
	"slices"
	"strconv"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// Diff returns the steps from what is there to what is wanted.
//
// Listeners are identified by their port and members by their address; names
// are never compared. Settings (model.Listener.Settings) are compared as text,
// and not set is a value like any other: a wanted setting that is empty while
// the backend holds one yields a step that brings back the provider's default.
// So that a steady state has no steps, a provider reports the empty value
// where its backend stands at the default, and reports what its backend cannot
// tell as it was last applied. A monitor without a type is no monitor; its
// other settings are not compared.
//
// Three wants are left to the backend: empty wanted addresses (it chose one,
// which stays), an observed balancer without a UID (nobody wrote down whose it
// is, so it is taken as ours), and names.
//
// What exists with neither an address nor a listener is only what a balancer
// left behind: the load balancer is created. When another owner's balancer is
// there, all of it is deleted first.
//
// Listeners must be unique by port. Neither argument is changed or kept.
func Diff(want model.Balancer, have model.Observed) Plan {
	want, have = canonical(want), canonicalObserved(have)
	p := Plan{Key: want.Key, Want: want, Have: have}
	if have.Exists && otherOwner(want.UID, have.Balancer.UID) {
		p.Steps = remove(have, Change{FieldOwner, have.Balancer.UID, want.UID})
		have = model.Observed{}
	}
	p.Steps = append(p.Steps, balancer(want, have)...)
	for _, l := range want.Listeners {
		p.Steps = append(p.Steps, grow(l, have)...)
	}
	for _, l := range have.Balancer.Listeners {
		p.Steps = append(p.Steps, shrink(want, l, hasPool(have, l.Port))...)
	}
	return p
}

// Remove returns the steps that delete everything that is there for a key,
// whoever asked for it.
func Remove(key model.Key, have model.Observed) Plan {
	have = canonicalObserved(have)
	return Plan{Key: key, Remove: true, Have: have, Steps: remove(have)}
}

// canonical normalizes a balancer and drops the settings of monitors that are none.
func canonical(b model.Balancer) model.Balancer {
	b = b.Normalize()
	for i := range b.Listeners {
		if b.Listeners[i].Pool.Monitor.Type == "" {
			b.Listeners[i].Pool.Monitor = model.Monitor{}
		}
	}
	return b
}

func canonicalObserved(o model.Observed) model.Observed {
	o.Balancer = canonical(o.Balancer)
	o.Poolless = slices.Clone(o.Poolless)
	slices.SortFunc(o.Poolless, model.Port.Compare)
	for i, l := range o.Balancer.Listeners {
		if !hasPool(o, l.Port) {
			o.Balancer.Listeners[i].Pool = model.Pool{}
		}
	}
	return o
}

// otherOwner tells whether two UIDs name different objects; an unknown one
// differs from none.
func otherOwner(a, b string) bool { return a != "" && b != "" && a != b }

func hasPool(o model.Observed, p model.Port) bool { return !slices.Contains(o.Poolless, p) }

func balancer(want model.Balancer, have model.Observed) []Step {
	var changes []Change
	if len(want.Addresses) > 0 && !slices.Equal(want.Addresses, have.Balancer.Addresses) {
		changes = []Change{{FieldAddresses, addressText(have.Balancer), addressText(want)}}
	}
	left := len(have.Balancer.Addresses) == 0 && len(have.Balancer.Listeners) == 0
	return object(Step{Kind: LoadBalancer, Changes: changes}, have.Exists && !left)
}

func addressText(b model.Balancer) string {
	if len(b.Addresses) == 0 {
		return ""
	}
	return model.JoinAddrs(b.Addresses)
}

// object returns the step that brings an object's changes: its creation when it
// is not there, nothing when it is there without a change.
func object(s Step, there bool) []Step {
	switch {
	case !there:
		s.Verb = Create
	case len(s.Changes) > 0:
		s.Verb = Update
	default:
		return nil
	}
	return []Step{s}
}

// grow returns the creations and updates of a wanted listener and its parts,
// parents first.
func grow(want model.Listener, o model.Observed) []Step {
	have, there := o.Balancer.Find(want.Port)
	steps := part(Listener, model.PartListener, want, have, there)
	steps = append(steps, part(Pool, model.PartPool, want, have, there && hasPool(o, want.Port))...)
	if want.Pool.Monitor.Type != "" {
		steps = append(steps, part(HealthMonitor, model.PartMonitor, want, have, have.Pool.Monitor.Type != "")...)
	}
	return append(steps, growMembers(want, have)...)
}

func part(k Kind, of model.Part, want, have model.Listener, there bool) []Step {
	return object(Step{Kind: k, Port: want.Port, Changes: settingChanges(of, want, have)}, there)
}

func settingChanges(of model.Part, want, have model.Listener) []Change {
	var changes []Change
	from := have.Settings()
	for i, s := range want.Settings() {
		if s.Of == of && s.Value != from[i].Value {
			changes = append(changes, Change{s.Name, from[i].Value, s.Value})
		}
	}
	return changes
}

// growMembers puts creations before updates: an update may take the weight of
// the last member that serves.
func growMembers(want, have model.Listener) []Step {
	var created, updated []Step
	for _, m := range want.Pool.Members {
		s := Step{Verb: Create, Kind: MemberKind, Port: want.Port, Member: m.Address}
		old, there := find(have.Pool.Members, m)
		switch {
		case !there:
			s.Changes = []Change{{FieldWeight, "", strconv.Itoa(m.Weight)}}
			created = append(created, s)
		case !m.Equal(old):
			s.Verb = Update
			s.Changes = []Change{{FieldWeight, strconv.Itoa(old.Weight), strconv.Itoa(m.Weight)}}
			updated = append(updated, s)
		}
	}
	return append(created, updated...)
}

// find returns the member of the same address.
func find(sorted []model.Member, m model.Member) (model.Member, bool) {
	i, ok := slices.BinarySearchFunc(sorted, m, compareMembers)
	if !ok {
		return model.Member{}, false
	}
	return sorted[i], true
}

func compareMembers(a, b model.Member) int { return a.Address.Compare(b.Address) }

// shrink returns the deletions of what is there of a listener and no longer
// wanted, children first.
func shrink(want model.Balancer, have model.Listener, pool bool) []Step {
	wanted, stays := want.Find(have.Port)
	var steps []Step
	for _, m := range have.Pool.Members {
		if _, ok := find(wanted.Pool.Members, m); !ok {
			steps = append(steps, Step{Verb: Delete, Kind: MemberKind, Port: have.Port, Member: m.Address})
		}
	}
	if have.Pool.Monitor.Type != "" && wanted.Pool.Monitor.Type == "" {
		steps = append(steps, Step{Verb: Delete, Kind: HealthMonitor, Port: have.Port})
	}
	if stays {
		return steps
	}
	if pool {
		steps = append(steps, Step{Verb: Delete, Kind: Pool, Port: have.Port})
	}
	return append(steps, Step{Verb: Delete, Kind: Listener, Port: have.Port})
}

// remove returns the deletions of everything that is there. The changes say
// why, on the load balancer's step.
func remove(have model.Observed, why ...Change) []Step {
	if !have.Exists {
		return nil
	}
	var steps []Step
	for _, l := range have.Balancer.Listeners {
		steps = append(steps, shrink(model.Balancer{}, l, hasPool(have, l.Port))...)
	}
	return append(steps, Step{Verb: Delete, Kind: LoadBalancer, Changes: why})
}

// KeepMembers returns what is wanted with the members that are there put back
// into the pools that want none. It is for a want whose lack of members is in
// doubt: a pool in service is not emptied by a list that may be incomplete.
func KeepMembers(want model.Balancer, have model.Observed) model.Balancer {
	want.Listeners = slices.Clone(want.Listeners)
	for i, l := range want.Listeners {
		if there, ok := have.Balancer.Find(l.Port); ok && len(l.Pool.Members) == 0 {
			want.Listeners[i].Pool.Members = slices.Clone(there.Pool.Members)
		}
	}
	return want
}
