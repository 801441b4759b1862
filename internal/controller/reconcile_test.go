package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/kube/kubetest"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// TestOrderOfWrites asserts which writes a change of a settled Service costs,
// and in which order; "apply" is the backend's.
func TestOrderOfWrites(t *testing.T) {
	cases := map[string]struct {
		reason string
		before []func(*rig)
		act    func(*rig)
		want   []string
	}{
		"Create": {
			reason: "guard and memory before the backend, words last",
			act:    func(r *rig) { r.put(lb("web")) },
			want:   []string{"finalizers default/web", "put record default.web", "apply", "status default/web"},
		},
		"Nothing": {
			reason: "a steady state writes nothing",
			before: []func(*rig){func(r *rig) { r.put(lb("web")) }},
			act:    func(r *rig) { r.enqueue(keyFor("web")) },
		},
		"Endpoints": {
			reason: "endpoints concern the backend, and the words only where nobody was ready",
			before: []func(*rig){func(r *rig) {
				r.put(lb("web"))
				r.cluster.SetSlices(keyFor("web"), pods("web", "10.0.0.1"))
			}},
			act: func(r *rig) {
				r.cluster.SetSlices(keyFor("web"), pods("web", "10.0.0.1", "10.0.0.2"))
				r.enqueue(keyFor("web"))
			},
			want: []string{"apply"},
		},
		"Move": {
			reason: "the old address is reserved before the record forgets it",
			before: []func(*rig){func(r *rig) { r.put(lb("web")) }},
			act:    func(r *rig) { r.put(lb("web", annotated("address", "203.0.113.3"))) },
			want:   []string{"put reservation 203.0.113.1", "put record default.web", "apply", "status default/web"},
		},
		"Return": {
			reason: "a reservation ends after the record has the address",
			before: []func(*rig){
				func(r *rig) { r.put(lb("web")) },
				func(r *rig) { r.put(lb("web", annotated("address", "203.0.113.3"))) },
			},
			act: func(r *rig) { r.put(lb("web", annotated("address", "203.0.113.1"))) },
			want: []string{
				"put reservation 203.0.113.3", "put record default.web", "delete reservation 203.0.113.1", "apply", "status default/web",
			},
		},
		"Delete": {
			reason: "backend, reservation, record, and the finalizer last",
			before: []func(*rig){func(r *rig) { r.put(lb("web")) }},
			act:    func(r *rig) { r.delete("web") },
			want:   []string{"apply", "put reservation 203.0.113.1", "delete record default.web", "finalizers default/web"},
		},
		"NoLoadBalancerAnyMore": {
			reason: "a Service that stays is cleared of our words before the finalizer goes",
			before: []func(*rig){func(r *rig) { r.put(lb("web")) }},
			act:    func(r *rig) { r.put(lb("web", clusterIP)) },
			want: []string{
				"apply", "put reservation 203.0.113.1", "delete record default.web", "status default/web", "finalizers default/web",
			},
		},
		"Blocked": {
			reason: "a new Service whose exposure is unclear costs nothing but words",
			act:    func(r *rig) { r.put(lb("web", annotated("source-ranges", "x"))) },
			want:   []string{"status default/web"},
		},
		"Paused": {
			reason: "a paused Service costs nothing but words",
			act:    func(r *rig) { r.put(lb("web", annotated("paused", "true"))) },
			want:   []string{"status default/web"},
		},
		"NoAddress": {
			reason: "who gets no address is guarded, remembered and told, and nothing is made",
			act:    func(r *rig) { r.put(lb("web", annotated("address", "203.0.113.99"))) },
			want:   []string{"finalizers default/web", "put record default.web", "status default/web"},
		},
		"NotOurs": {
			reason: "a Service of another class is never written",
			act:    func(r *rig) { r.put(lb("web", classed("example.org/lb"))) },
		},
		"OtherProvider": {
			reason: "the former provider's balancer and record go first",
			before: []func(*rig){func(r *rig) { r.put(lb("web")) }},
			act: func(r *rig) {
				r.put(lb("web", clusterIP))
				r.put(lb("web", classed(translate.ClassPrefix+"other")))
			},
			want: []string{
				"apply", "put reservation 203.0.113.1", "delete record default.web",
				"put record default.web", "delete reservation 203.0.113.1", "apply", "status default/web",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			for _, b := range tc.before {
				b(r)
				r.settle()
			}
			got := r.watchWrites()
			tc.act(r)
			r.settle()
			if diff := cmp.Diff(tc.want, *got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// watchWrites returns the list of writes from now on, with those of backends.
func (r *rig) watchWrites() *[]string {
	var list []string
	applied := r.backendWrites()
	note := func() {
		if n := r.backendWrites(); n != applied {
			list, applied = append(list, "apply"), n
		}
	}
	r.hook(func(w kubetest.Write) error {
		note()
		list = append(list, w.String())
		return nil
	}, nil)
	r.afterLook = note
	return &list
}

func (r *rig) backendWrites() int {
	n := 0
	for _, b := range r.backends {
		n += b.Writes()
	}
	return n
}

// TestObserveWritesOnlyReports: in observe mode and on paused Services nothing
// but words is written, and what is published stays.
func TestObserveWritesOnlyReports(t *testing.T) {
	r := newRig(t, nil)
	r.put(lb("web"))
	r.settle()
	r.put(lb("gone"))
	r.put(lb("plain"))
	r.settle()
	r.config.Observe = true
	r.put(lb("web", annotated("address", "203.0.113.4"), ports(80, 443)))
	r.delete("gone")
	r.put(lb("plain", clusterIP))
	r.put(lb("new"))
	r.restart()
	backends := r.backendWrites()
	got := r.watchWrites()
	r.settle()
	r.pass(time.Hour)
	for _, w := range *got {
		if !strings.HasPrefix(w, string(kubetest.Status)+" ") {
			t.Errorf("observing made the write %q", w)
		}
	}
	if n := r.backendWrites() - backends; n > 0 {
		t.Errorf("observing made %d writes in a backend", n)
	}
	if have := kube.AddressesOf(r.cluster.Service(keyFor("web"))); fmt.Sprint(have) != "[203.0.113.1]" {
		t.Errorf("it publishes %v, which was 203.0.113.1 before observing", have)
	}
	c := kube.FindCondition(r.cluster.Service(keyFor("web")), status.Programmed)
	if c == nil || c.Reason != status.ReasonObserving || !strings.Contains(c.Message, "would apply") {
		t.Errorf("condition Programmed is %+v, want reason Observing with the plan", c)
	}
}

// TestPausedKeepsItsAddress: a change of a paused Service moves nothing, also
// not in memory, where the address would otherwise go to somebody else.
func TestPausedKeepsItsAddress(t *testing.T) {
	r := newRig(t, nil)
	r.put(lb("web"))
	r.settle()
	r.put(lb("web", annotated("address", "203.0.113.3"), annotated("paused", "true")))
	r.settle()
	r.pass(time.Hour)
	r.put(lb("rival", annotated("address", "203.0.113.1")))
	r.settle()
	if have := kube.AddressesOf(r.cluster.Service(keyFor("web"))); fmt.Sprint(have) != "[203.0.113.1]" {
		t.Errorf("the paused Service publishes %v, want 203.0.113.1", have)
	}
	if have := kube.AddressesOf(r.cluster.Service(keyFor("rival"))); len(have) > 0 {
		t.Errorf("the rival got %v", have)
	}
	r.delete("web")
	r.settle()
	if r.cluster.Service(keyFor("web")) == nil {
		t.Error("a paused Service was cleaned up")
	}
	r.cluster.Change(keyFor("web"), func(svc *corev1.Service) { delete(svc.Annotations, "fairlead.dev/paused") })
	r.enqueue(keyFor("web"))
	r.settle()
	if r.cluster.Service(keyFor("web")) != nil {
		t.Error("the Service is still there after its pause")
	}
}

// TestPausedIsServedAfterARestart: a backend that ends with the process is
// filled again for a paused Service too, at the address that it holds.
func TestPausedIsServedAfterARestart(t *testing.T) {
	r := newRig(t, nil)
	r.ephemeral = true
	r.put(lb("web"))
	r.settle()
	r.put(lb("web", annotated("address", "203.0.113.3"), annotated("paused", "true")))
	r.settle()
	r.restart()
	r.settle()
	have, err := r.backends["local"].Observe(t.Context(), keyFor("web"))
	if err != nil {
		t.Fatal(err)
	}
	if got := model.JoinAddrs(have.Balancer.Addresses); got != "203.0.113.1" {
		t.Errorf("the paused Service is served at %s after the restart, want 203.0.113.1", got)
	}
	c := kube.FindCondition(r.cluster.Service(keyFor("web")), status.Programmed)
	if c == nil || c.Reason != status.ReasonPaused {
		t.Errorf("condition Programmed is %+v, want reason Paused with what would change", c)
	}
}

// TestRefusedMemoryIsReported: a record that cannot be written leaves no
// Service pending without a word.
func TestRefusedMemoryIsReported(t *testing.T) {
	r := newRig(t, nil)
	refuse := errors.New("records are forbidden")
	r.hook(func(w kubetest.Write) error {
		if w.Kind == kubetest.PutRecord {
			return refuse
		}
		return nil
	}, nil)
	r.put(lb("web"))
	if _, err := r.look(keyFor("web")); !errors.Is(err, refuse) {
		t.Errorf("the pass ended with %v, want the refusal, so that it is tried again", err)
	}
	c := kube.FindCondition(r.cluster.Service(keyFor("web")), status.Programmed)
	if c == nil || c.Reason != status.ReasonBackendError || !strings.Contains(c.Message, refuse.Error()) {
		t.Errorf("condition Programmed is %+v, want the refusal", c)
	}
	r.hook(nil, nil)
	r.settle()
	if have := kube.AddressesOf(r.cluster.Service(keyFor("web"))); len(have) != 1 {
		t.Errorf("it publishes %v once records are allowed again", have)
	}
}

// TestPausedAndNeverServedLeavesNothing: the address that a paused Service would
// get is nobody's, whatever becomes of the Service.
func TestPausedAndNeverServedLeavesNothing(t *testing.T) {
	r := newRig(t, nil)
	r.put(lb("web", annotated("paused", "true"), annotated("address", "203.0.113.9")))
	r.settle()
	if len(r.controller.addresses.waiting()) != 1 {
		t.Fatal("a paused Service that would get no address is not woken when it could")
	}
	r.delete("web")
	r.settle()
	if held := r.controller.addresses.table.Holdings(); len(held) > 0 {
		t.Errorf("holdings %v without any Service", held)
	}
	if waiting := r.controller.addresses.waiting(); len(waiting) > 0 {
		t.Errorf("%v still wait", waiting)
	}
}

// TestFailuresAreTold: whatever fails in a backend stands in the condition, and
// what is published stays while the address is held.
func TestFailuresAreTold(t *testing.T) {
	cases := map[string]struct {
		reason string
		class  string
		act    func(*rig)
		want   string
	}{
		"Apply": {
			reason: "a plan that fails halfway",
			class:  "local",
			act: func(r *rig) {
				r.backends["local"].FailNext(1, errInjected)
				r.put(lb("web", ports(80, 443)))
			},
			want: "Provider local: applying the plan for balancer default/web: ",
		},
		"Observe": {
			reason: "a backend that cannot be read",
			class:  "local",
			act: func(r *rig) {
				r.controller.Providers["local"] = blind{r.controller.Providers["local"]}
				r.enqueue(keyFor("web"))
			},
			want: "Provider local: observing balancer default/web: injected",
		},
		"ObserveChosen": {
			reason: "a backend that chooses addresses and cannot be read",
			class:  "cloud",
			act: func(r *rig) {
				r.controller.Providers["cloud"] = blind{r.controller.Providers["cloud"]}
				r.enqueue(keyFor("web"))
			},
			want: "Provider cloud: observing balancer default/web: injected",
		},
		"FormerProvider": {
			reason: "a former provider that cannot be cleaned up",
			class:  "other",
			act: func(r *rig) {
				delete(r.controller.Providers, "other")
				r.put(lb("web", clusterIP))
				r.put(lb("web"))
			},
			want: `Provider local: removing balancer default/web: provider "other" holds it and is not configured`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.put(lb("web", classed(translate.ClassPrefix+tc.class)))
			r.settle()
			published := kube.AddressesOf(r.cluster.Service(keyFor("web")))
			if len(published) != 1 {
				t.Fatalf("it publishes %v before the failure", published)
			}
			tc.act(r)
			if _, err := r.look(keyFor("web")); err == nil {
				t.Errorf("%s: no error, so nothing tries again", tc.reason)
			}
			svc := r.cluster.Service(keyFor("web"))
			c := kube.FindCondition(svc, status.Programmed)
			if c == nil || c.Reason != status.ReasonBackendError || !strings.Contains(c.Message, tc.want) {
				t.Errorf("%s: condition Programmed %+v, want %q", tc.reason, c, tc.want)
			}
			if name != "FormerProvider" && !slices.Equal(published, kube.AddressesOf(svc)) {
				t.Errorf("%s: it publishes %v, before %v", tc.reason, kube.AddressesOf(svc), published)
			}
		})
	}
}

// TestRefusedPortIsTold: a port that the backend cannot serve is told, and the
// condition goes when it can.
func TestRefusedPortIsTold(t *testing.T) {
	r := newRig(t, nil)
	release := r.backends["local"].Block(keyFor("web"), model.Port{Protocol: model.TCP, Number: 443})
	r.put(lb("web", ports(80, 443)))
	r.settle()
	svc := r.cluster.Service(keyFor("web"))
	if c := kube.FindCondition(svc, status.PortsError); c == nil || c.Status != "True" {
		t.Errorf("condition %s is %+v, want True", status.PortsError, c)
	}
	ingress := svc.Status.LoadBalancer.Ingress
	if len(ingress) != 1 || len(ingress[0].Ports) != 2 || ingress[0].Ports[0].Error != nil || ingress[0].Ports[1].Error == nil {
		t.Errorf("ingress %+v, want port 80 without and 443 with an error", ingress)
	}
	release()
	r.enqueue(keyFor("web"))
	r.settle()
	svc = r.cluster.Service(keyFor("web"))
	if c := kube.FindCondition(svc, status.PortsError); c != nil {
		t.Errorf("condition %s is still there: %+v", status.PortsError, c)
	}
}

// TestNothingNewIsNoNews: what changes no load balancer is not told as one that
// was ensured.
func TestNothingNewIsNoNews(t *testing.T) {
	r := newRig(t, nil)
	r.put(lb("web"))
	r.settle()
	told := len(r.cluster.Events())
	r.cluster.Change(keyFor("web"), func(svc *corev1.Service) {
		delete(svc.Annotations, "fairlead.dev/observed")
		svc.Status.Conditions = nil
	})
	r.enqueue(keyFor("web"))
	r.settle()
	if events := r.cluster.Events(); len(events) != told {
		t.Errorf("healing told %v", events[told:])
	}
}

// TestReleasedAndDeleted: a Service that was given back under a running
// controller, and is deleted later, leaves neither a listener nor an address.
func TestReleasedAndDeleted(t *testing.T) {
	r := newRig(t, nil)
	r.ephemeral = true
	r.restart()
	r.put(lb("web"))
	r.settle()
	r.cluster.DropRecord(keyFor("web"))
	r.cluster.Change(keyFor("web"), func(svc *corev1.Service) {
		svc.Finalizers = nil
		metav1.SetMetaDataAnnotation(&svc.ObjectMeta, "fairlead.dev/paused", "true")
	})
	r.enqueue(keyFor("web"))
	r.settle()
	if o, err := r.backends["local"].Observe(t.Context(), keyFor("web")); err != nil || !o.Exists {
		t.Fatalf("the release stopped what it leaves standing: %+v, %v", o, err)
	}
	r.delete("web")
	r.enqueue(keyFor("web"))
	r.put(lb("next", annotated("address", "203.0.113.1")))
	r.settle()
	if o, err := r.backends["local"].Observe(t.Context(), keyFor("web")); err != nil || o.Exists {
		t.Errorf("it is still served: %+v, %v", o, err)
	}
	if have := kube.AddressesOf(r.cluster.Service(keyFor("next"))); fmt.Sprint(have) != "[203.0.113.1]" {
		t.Errorf("the next one who asks for the address got %v", have)
	}
}

// TestHoldCountsWithinTheSecond: objects tell the second they were created in.
// Who was seen waiting gets what is released within that second, and who comes
// after the release does not.
func TestHoldCountsWithinTheSecond(t *testing.T) {
	for _, waits := range []bool{true, false} {
		t.Run(fmt.Sprintf("waiting=%v", waits), func(t *testing.T) {
			r := newRig(t, nil)
			r.put(lb("first", annotated("address", "203.0.113.1")))
			r.settle()
			ask := func() {
				r.put(lb("second", annotated("address", "203.0.113.1")))
				r.settle()
			}
			if waits {
				ask()
			}
			r.now = r.now.Add(100 * time.Millisecond)
			r.delete("first")
			r.settle()
			if !waits {
				ask()
			}
			if got := len(kube.AddressesOf(r.cluster.Service(keyFor("second")))) == 1; got != waits {
				t.Errorf("the second Service has the address: %v, want %v", got, waits)
			}
		})
	}
}
