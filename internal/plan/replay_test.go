package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
)

// A plan may meet another state than the one it was made for: the outcome is
// whole all the same, and the next plan leads to what is wanted.
func TestReplayOnAnotherState(t *testing.T) {
	for seed := range cases {
		d := seeded(seed)
		want := d.want()
		p := plan.Diff(want, d.have())
		if d.IntN(4) == 0 {
			p = plan.Remove(want.Key, p.Have)
		}
		got := plan.Replay(d.have(), p)
		if err := whole(got); err != nil {
			t.Fatalf("seed %d: %v:\n%s", seed, err, got.Balancer.Text())
		}
		end := plan.Replay(got, plan.Diff(want, got))
		if rest := plan.Diff(want, end); !rest.Empty() {
			t.Fatalf("seed %d: the next plan does not lead to the end, there remain\n%s", seed, rest.Text())
		}
	}
}

// whole says what is wrong with the form of an observation.
func whole(o model.Observed) error {
	if diff := differ(o.Balancer.Normalize(), o.Balancer); diff != "" {
		return fmt.Errorf("it is not in canonical form (-want +got): %s", diff)
	}
	if !o.Exists && (len(o.Balancer.Listeners) > 0 || len(o.Poolless) > 0) {
		return errors.New("nothing exists, with parts")
	}
	if !slices.IsSortedFunc(o.Poolless, model.Port.Compare) {
		return fmt.Errorf("ports without pools are not sorted: %v", o.Poolless)
	}
	for _, port := range o.Poolless {
		l, there := o.Balancer.Find(port)
		if !there || len(l.Pool.Members) > 0 || l.Pool.Monitor.Type != "" {
			return fmt.Errorf("%s has no pool, and parts of one", port)
		}
	}
	return nil
}

func TestReplay(t *testing.T) {
	port := web().Listeners[0].Port
	member := web().Listeners[0].Pool.Members[0].Address
	steps := func(p plan.Plan, s ...plan.Step) plan.Plan {
		p.Steps = s
		return p
	}
	create := plan.Diff(web(), model.Observed{})
	next := changed(func(b *model.Balancer) { b.UID = "uid-2" })
	for name, tc := range map[string]struct {
		reason string
		have   model.Observed
		plan   plan.Plan
		want   model.Observed
	}{
		"ChildOfNothing": {
			"a member without a load balancer is not created",
			model.Observed{},
			steps(create, plan.Step{Verb: plan.Create, Kind: plan.MemberKind, Port: port, Member: member}),
			model.Observed{},
		},
		"ListenerOfNothing": {
			"a listener without a load balancer is not created",
			model.Observed{},
			steps(create, plan.Step{Verb: plan.Create, Kind: plan.Listener, Port: port}),
			model.Observed{},
		},
		"ParentTakesChildren": {
			"a load balancer goes with all its parts", there(web()),
			steps(plan.Remove(web().Key, there(web())), plan.Step{Verb: plan.Delete, Kind: plan.LoadBalancer}),
			model.Observed{},
		},
		"OtherOwner": {
			"a removal planned for the old owner spares the new one", there(next),
			plan.Remove(web().Key, there(web())), there(next),
		},
		"UnknownOwner": {
			"a removal of something unsigned removes it", there(web()),
			plan.Remove(web().Key, there(changed(func(b *model.Balancer) { b.UID = "" }))),
			model.Observed{},
		},
		"NotInWant": {
			"a step whose values the plan does not hold does nothing", there(web()),
			steps(create,
				plan.Step{Verb: plan.Create, Kind: plan.Listener, Port: model.Port{Protocol: model.TCP, Number: 9}},
				plan.Step{Verb: plan.Create, Kind: plan.MemberKind, Port: port}),
			there(web()),
		},
		"Health": {
			"what is known of a port goes with it",
			model.Observed{Exists: true, Balancer: web(), Health: []model.PortHealth{{Port: port}, {Port: web().Listeners[1].Port}}},
			steps(create, plan.Step{Verb: plan.Delete, Kind: plan.Listener, Port: port}),
			model.Observed{
				Exists: true, Balancer: changed(func(b *model.Balancer) { b.Listeners = b.Listeners[1:] }),
				Health: []model.PortHealth{{Port: web().Listeners[1].Port}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := differ(tc.want, plan.Replay(tc.have, tc.plan)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
