package plan_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
)

// differ returns the difference of two values as text. Nil and empty slices
// are the same; what is the same at first sight is not looked at twice, which
// makes thousands of cases cheap.
func differ(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{}), cmpopts.EquateEmpty())
}

func TestSameIsNoPlan(t *testing.T) {
	for seed := range cases {
		d := seeded(seed)
		b := d.want()
		p := plan.Diff(d.scrambled(b), model.Observed{Exists: true, Balancer: d.scrambled(b)})
		if !p.Empty() {
			t.Fatalf("seed %d: a balancer differs from itself:\n%s", seed, p.Text())
		}
	}
}

func TestReplayLeadsToWant(t *testing.T) {
	for seed := range cases {
		d := seeded(seed)
		want, have := d.want(), d.have()
		p := plan.Diff(want, have)
		got := plan.Replay(have, p)
		if have.Exists && have.Balancer.UID == "" && got.Balancer.UID == "" {
			want.UID = "" // adopted: the owner is written down with the first write
		}
		if diff := differ(nameless(want), nameless(got.Balancer)); diff != "" || !got.Exists || len(got.Poolless) > 0 {
			t.Fatalf("seed %d: after\n%sthe balancer differs from the wanted one (-want +got):\n%s", seed, p.Text(), diff)
		}
	}
}

func TestReplayLeadsToNothing(t *testing.T) {
	for seed := range cases {
		have := seeded(seed).have()
		got := plan.Replay(have, plan.Remove(have.Balancer.Key, have))
		if diff := differ(model.Observed{}, got); diff != "" {
			t.Fatalf("seed %d: a removal leaves (-want +got):\n%s", seed, diff)
		}
	}
}

func TestReplayTwiceIsOnce(t *testing.T) {
	for seed := range cases {
		d := seeded(seed)
		have := d.have()
		p := plan.Diff(d.want(), have)
		once := plan.Replay(have, p)
		if diff := differ(once, plan.Replay(once, p)); diff != "" {
			t.Fatalf("seed %d: replayed twice,\n%sdiffers (-once +twice):\n%s", seed, p.Text(), diff)
		}
	}
}

// A plan that stopped anywhere goes on where it stopped.
func TestPrefixesResume(t *testing.T) {
	for seed := range cases / 2 {
		d := seeded(seed)
		want, have := d.want(), d.have()
		whole := plan.Diff(want, have)
		for k := range whole.Steps {
			half := whole
			half.Steps = whole.Steps[:k]
			rest := plan.Diff(want, plan.Replay(have, half))
			if diff := differ(whole.Steps[k:], rest.Steps); diff != "" {
				t.Fatalf("seed %d: after %d steps of\n%sthe rest differs (-want +got):\n%s", seed, k, whole.Text(), diff)
			}
		}
	}
}

func TestPrefixesAreValid(t *testing.T) {
	for seed := range cases {
		d := seeded(seed)
		want, have := d.want(), d.have()
		for _, p := range []plan.Plan{plan.Diff(want, have), plan.Remove(want.Key, have)} {
			there := objects(have)
			for _, s := range p.Steps {
				if err := advance(there, s); err != nil {
					t.Fatalf("seed %d: %v in\n%s", seed, err, p.Text())
				}
			}
		}
	}
}

// object names an object of a balancer.
type object struct {
	kind   plan.Kind
	port   model.Port
	member netip.AddrPort
}

func (o object) parent() object {
	switch o.kind {
	case plan.MemberKind, plan.HealthMonitor:
		return object{kind: plan.Pool, port: o.port}
	case plan.Pool:
		return object{kind: plan.Listener, port: o.port}
	case plan.Listener, plan.LoadBalancer:
	}
	return object{kind: plan.LoadBalancer}
}

func objects(o model.Observed) map[object]bool {
	there := map[object]bool{}
	if !o.Exists {
		return there
	}
	there[object{kind: plan.LoadBalancer}] = len(o.Balancer.Addresses) > 0
	poolless := map[model.Port]bool{}
	for _, p := range o.Poolless {
		poolless[p] = true
	}
	for _, l := range o.Balancer.Listeners {
		there[object{kind: plan.Listener, port: l.Port}] = true
		there[object{kind: plan.Pool, port: l.Port}] = !poolless[l.Port]
		there[object{kind: plan.HealthMonitor, port: l.Port}] = l.Pool.Monitor.Type != ""
		for _, m := range l.Pool.Members {
			there[object{kind: plan.MemberKind, port: l.Port, member: m.Address}] = true
		}
	}
	return there
}

// advance carries out a step on the set of objects that are there, or says why
// it cannot be carried out.
func advance(there map[object]bool, s plan.Step) error {
	o := object{s.Kind, s.Port, s.Member}
	top := o.kind == plan.LoadBalancer
	switch {
	case s.Verb == plan.Create && there[o]:
		return fmt.Errorf("%v is created twice", o)
	case s.Verb == plan.Create && !top && !there[o.parent()]:
		return fmt.Errorf("%v is created before its parent", o)
	case s.Verb == plan.Update && (!there[o] || len(s.Changes) == 0):
		return fmt.Errorf("%v is updated without being there or without a change", o)
	case s.Verb == plan.Delete && !top && !there[o]:
		return fmt.Errorf("%v is deleted without being there", o)
	}
	there[o] = s.Verb != plan.Delete
	return orphan(there)
}

// orphan names an object whose parent is not there. What a removed load
// balancer left behind (no load balancer at all) has no listeners either.
func orphan(there map[object]bool) error {
	for o, is := range there {
		if is && o.kind != plan.LoadBalancer && !there[o.parent()] {
			return fmt.Errorf("%v is there without its parent", o)
		}
	}
	return nil
}

func TestMakeBeforeBreak(t *testing.T) {
	for seed := range cases {
		d := seeded(seed)
		want, have := d.want(), d.have()
		if have.Balancer.UID != "" {
			have.Balancer.UID = want.UID
		}
		p := plan.Diff(want, have)
		deleting := false
		updated := map[model.Port]bool{}
		for _, s := range p.Steps {
			if deleting && s.Verb != plan.Delete {
				t.Fatalf("seed %d: something is made after a deletion:\n%s", seed, p.Text())
			}
			deleting = s.Verb == plan.Delete
			if s.Kind == plan.MemberKind && s.Verb == plan.Create && updated[s.Port] {
				t.Fatalf("seed %d: a member is created after another one's weight changed:\n%s", seed, p.Text())
			}
			updated[s.Port] = updated[s.Port] || s.Kind == plan.MemberKind && s.Verb == plan.Update
		}
	}
}

func TestDiffIsDeterministic(t *testing.T) {
	for seed := range cases {
		d := seeded(seed)
		want, have := d.want(), d.have()
		first := plan.Diff(want, have)
		other := clone(have)
		other.Balancer = d.scrambled(have.Balancer)
		d.Shuffle(len(other.Poolless), func(i, j int) {
			other.Poolless[i], other.Poolless[j] = other.Poolless[j], other.Poolless[i]
		})
		second := plan.Diff(d.scrambled(want), other)
		if diff := differ(first.Steps, second.Steps); diff != "" {
			t.Fatalf("seed %d: the order of the input changes the plan (-first +second):\n%s", seed, diff)
		}
	}
}

func TestArgumentsStayUntouched(t *testing.T) {
	for seed := range cases {
		d := seeded(seed)
		want, have := d.want(), d.have()
		wantBefore, haveBefore := want.Normalize(), clone(have)
		p := plan.Diff(want, have)
		planned := p.Want.Normalize()
		scribble(plan.Replay(have, p).Balancer)
		if diff := differ(planned, p.Want); diff != "" {
			t.Fatalf("seed %d: what Replay returns shares memory with the plan:\n%s", seed, diff)
		}
		scribble(p.Have.Balancer)
		scribble(p.Want)
		if diff := differ(wantBefore, want) + differ(haveBefore, have); diff != "" {
			t.Fatalf("seed %d: Diff or Replay shares memory with its arguments:\n%s", seed, diff)
		}
	}
}

func scribble(b model.Balancer) {
	for i := range b.Addresses {
		b.Addresses[i] = netip.IPv6Loopback()
	}
	for i := range b.Listeners {
		l := &b.Listeners[i]
		for j := range l.Pool.Members {
			l.Pool.Members[j].Weight = 99
		}
		for j := range l.AllowedCIDRs {
			l.AllowedCIDRs[j] = netip.Prefix{}
		}
		*l = model.Listener{}
	}
}
