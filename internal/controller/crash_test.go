package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/kube/kubetest"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// scenarios are lives of Services, as lists of what happens one after the other.
func scenarios() map[string]struct {
	reason string
	life   []func(*rig)
} {
	other := translate.ClassPrefix + "other"
	return map[string]struct {
		reason string
		life   []func(*rig)
	}{
		"CreateChangeDelete": {
			reason: "a whole life leaves a reservation until its time is over, and then nothing",
			life: []func(*rig){
				func(r *rig) { r.put(lb("web")) },
				func(r *rig) {
					r.cluster.SetSlices(keyFor("web"), pods("web", "10.0.0.1", "10.0.0.2"))
					r.enqueue(keyFor("web"))
				},
				func(r *rig) { r.put(lb("web", ports(80, 443))) },
				func(r *rig) { r.delete("web") },
				func(r *rig) { r.pass(11 * time.Minute) },
			},
		},
		"MoveAndReturn": {
			reason: "an address that is given up is held, and taken back",
			life: []func(*rig){
				func(r *rig) { r.put(lb("web")) },
				func(r *rig) { r.put(lb("web", annotated("address", "203.0.113.3"))) },
				func(r *rig) { r.put(lb("web", annotated("address", "203.0.113.1"))) },
				func(r *rig) { r.pass(time.Minute) },
			},
		},
		"Waiter": {
			reason: "who waits for an address gets it when its time comes",
			life: []func(*rig){
				func(r *rig) { r.put(lb("old", annotated("address", "203.0.113.2"))) },
				func(r *rig) { r.put(lb("new", annotated("address", "203.0.113.2"))) },
				func(r *rig) { r.delete("old") },
				func(r *rig) { r.pass(11 * time.Minute) },
			},
		},
		"Recreate": {
			reason: "a Service of the same name gets the same address",
			life: []func(*rig){
				func(r *rig) { r.put(lb("a")) },
				func(r *rig) { r.put(lb("b")) },
				func(r *rig) { r.delete("b") },
				func(r *rig) { r.delete("a") },
				func(r *rig) { r.put(lb("b")) },
			},
		},
		"TypeAndBack": {
			reason: "a Service that is no load balancer for a while",
			life: []func(*rig){
				func(r *rig) { r.put(lb("web")) },
				func(r *rig) { r.put(lb("web", clusterIP)) },
				func(r *rig) { r.put(lb("web", classed(""))) },
				func(r *rig) { r.put(lb("web", clusterIP)) },
			},
		},
		"ClassAtOnce": {
			reason: "two changes between two looks: no class, then a class, and away",
			life: []func(*rig){
				func(r *rig) { r.put(lb("web", classed(""))) },
				func(r *rig) { r.put(lb("web", clusterIP)); r.put(lb("web")) },
				func(r *rig) { r.delete("web") },
			},
		},
		"OtherProviderAtOnce": {
			reason: "the former provider lets go before the next one serves",
			life: []func(*rig){
				func(r *rig) { r.put(lb("web")) },
				func(r *rig) { r.put(lb("web", clusterIP)); r.put(lb("web", classed(other))) },
			},
		},
		"OtherProviderWithBadOption": {
			reason: "what a former provider's record accepted is gone with the record",
			life: []func(*rig){
				func(r *rig) { r.put(lb("web", annotated("source-ranges", "10.0.0.0/8"))) },
				func(r *rig) {
					r.put(lb("web", clusterIP))
					r.put(lb("web", classed(other), annotated("source-ranges", "nonsense")))
				},
			},
		},
		"PoolToCloud": {
			reason: "a provider that chooses addresses itself leaves none to the pools",
			life: []func(*rig){
				func(r *rig) { r.put(lb("web")) },
				func(r *rig) { r.put(lb("web", clusterIP)); r.put(lb("web", classed(translate.ClassPrefix+"cloud"))) },
				func(r *rig) { r.pass(11 * time.Minute) },
			},
		},
		"ForeignClassAtOnce": {
			reason: "a Service that went to somebody else's class is cleaned up by finalizer and record",
			life: []func(*rig){
				func(r *rig) { r.put(lb("web", classed(""))) },
				func(r *rig) { r.put(lb("web", clusterIP)); r.put(lb("web", classed("example.org/lb"))) },
			},
		},
		"Shared": {
			reason: "two Services at one address, of which one goes",
			life: []func(*rig){
				func(r *rig) { r.put(lb("a", annotated("share", "s"), ports(80))) },
				func(r *rig) { r.put(lb("b", annotated("share", "s"), annotated("address", "203.0.113.1"), ports(443))) },
				func(r *rig) { r.delete("a") },
				func(r *rig) { r.pass(11 * time.Minute) },
			},
		},
		"CloudToPool": {
			reason: "a provider that chooses addresses itself, then one that does not",
			life: []func(*rig){
				func(r *rig) { r.put(lb("web", classed(translate.ClassPrefix+"cloud"))) },
				func(r *rig) { r.put(lb("web", clusterIP)); r.put(lb("web")) },
			},
		},
		"BadOption": {
			reason: "an exposure option that is wrong from the start, then mended",
			life: []func(*rig){
				func(r *rig) { r.put(lb("web", annotated("source-ranges", "10.0.0.0/99"))) },
				func(r *rig) { r.put(lb("web", annotated("source-ranges", "10.0.0.0/8"))) },
				func(r *rig) { r.put(lb("web", annotated("source-ranges", "nonsense"))) },
			},
		},
	}
}

// live runs a life, with a death after so many writes; less than zero: none.
func live(t *testing.T, life []func(*rig), ephemeral bool, kill int) *rig {
	t.Helper()
	r := newRig(t, nil)
	r.ephemeral, r.fuse.left = ephemeral, kill
	for _, act := range life {
		act(r)
		r.settle()
	}
	return r
}

// TestKilledAfterEveryWrite kills the controller after its n-th write, for
// every n, and starts another: the end is that of a life without a death.
func TestKilledAfterEveryWrite(t *testing.T) {
	for name, tc := range scenarios() {
		for _, ephemeral := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/ephemeral=%v", name, ephemeral), func(t *testing.T) {
				want := live(t, tc.life, ephemeral, -1)
				if leaks := want.leaks(); len(leaks) > 0 {
					t.Errorf("%s: leaked without any death: %v", tc.reason, leaks)
				}
				deaths := 0
				for n := 0; ; n++ {
					got := live(t, tc.life, ephemeral, n)
					if got.fuse.left >= 0 {
						break
					}
					deaths++
					if diff := cmp.Diff(want.text(), got.text()); diff != "" {
						t.Fatalf("%s: killed after write %d: -undisturbed +killed\n%s", tc.reason, n+1, diff)
					}
					if leaks := got.leaks(); len(leaks) > 0 {
						t.Fatalf("%s: killed after write %d: leaked %v", tc.reason, n+1, leaks)
					}
				}
				if deaths < 3 {
					t.Errorf("only %d deaths; the life writes nothing", deaths)
				}
			})
		}
	}
}

// TestFailedAfterEveryWrite fails each write once, without effect and with a
// lost answer.
func TestFailedAfterEveryWrite(t *testing.T) {
	for name, tc := range scenarios() {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/lost=%v", name, lost), func(t *testing.T) {
				want := live(t, tc.life, false, -1)
				writes := len(want.cluster.Writes())
				for n := range writes {
					got := liveFailing(t, tc.life, n, lost)
					if diff := cmp.Diff(want.text(), got.text()); diff != "" {
						t.Fatalf("%s: write %d failed: -undisturbed +failed\n%s", tc.reason, n+1, diff)
					}
					if leaks := got.leaks(); len(leaks) > 0 {
						t.Fatalf("%s: write %d failed: leaked %v", tc.reason, n+1, leaks)
					}
				}
			})
		}
	}
}

func liveFailing(t *testing.T, life []func(*rig), n int, lost bool) *rig {
	t.Helper()
	r := newRig(t, nil)
	fail := func(kubetest.Write) error {
		if n--; n == -1 {
			return errInjected
		}
		return nil
	}
	if lost {
		r.hook(nil, fail)
	} else {
		r.hook(fail, nil)
	}
	for _, act := range life {
		act(r)
		r.settle()
	}
	return r
}
