//go:build linux

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/status"
)

// TestObserve: in mode observe the controller says what it would do, and
// writes nothing but that.
func TestObserve(t *testing.T) {
	start(t, settings{"mode": "observe", "defaultProvider": "local"})
	s := newSpace(t)
	mark := s.watermark(t)
	s.service(t, "lb", classless)
	s.publish(t, "lb", serve(t, "pod"), ready())
	if m := s.refused(t, "lb", "Observing"); !contains(m, "create load balancer") && !contains(m, "creat") {
		t.Errorf("the message does not say what would be done: %s", m)
	}
	s.await(t, "lb", "is told and nothing else", all2(guarded(), at(), says(status.Accepted, metav1.ConditionTrue, "")))
	eventually(t, "there is an event", func() error {
		events, err := s.events(t.Context(), "lb")
		if err == nil && len(events) == 0 {
			err = fmt.Errorf("no event")
		}
		return err
	})
	var record v1alpha1.ServiceRecord
	err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "fairlead-system", Name: v1alpha1.RecordName(s.name, "lb")}, &record)
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("there is a record (%v)", err)
	}
	for what, n := range s.writesSince(t, mark, s.here) {
		if what != "patch services/status" && what != "create events" && what != "patch events" {
			t.Errorf("the controller did %s, %d times", what, n)
		}
	}
	s.delete(t, "lb")
	s.gone(t, "lb")
}

// TestPaused: a paused Service stays as it is, is told what would change, and
// waits when it is deleted.
func TestPaused(t *testing.T) {
	start(t, nil)
	s := newSpace(t)
	s.service(t, "lb", nil)
	s.publish(t, "lb", serve(t, "pod"), ready())
	address := s.served(t, "lb")
	answers(t, endpoint(address, 8080), "pod")
	s.change(t, "lb", asking("paused", "true"))
	s.served(t, "lb")
	s.change(t, "lb", func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8081 })
	if m := s.refused(t, "lb", "Paused"); !contains(m, "fairlead.dev/paused") {
		t.Errorf("the message does not name the annotation: %s", m)
	}
	s.await(t, "lb", "keeps its address", at(address))
	answers(t, endpoint(address, 8080), "pod")
	if _, _, err := ask(endpoint(address, 8081), ""); err == nil {
		t.Error("the new port is served")
	}
	s.delete(t, "lb")
	s.service(t, "after", nil)
	s.served(t, "after")
	answers(t, endpoint(address, 8080), "pod")
	s.change(t, "lb", annotated("fairlead.dev/paused", "-"))
	s.gone(t, "lb")
	silent(t, endpoint(address, 8080), "")
}

// TestSelectors: only what is selected is served, and what is not selected any
// more is cleaned up.
func TestSelectors(t *testing.T) {
	start(t, settings{"serviceSelector": "fairlead=yes", "namespaceSelector": "fairlead.dev/e2e!=no"})
	s := newSpace(t)
	mark := s.watermark(t)
	opted := func(svc *corev1.Service) { svc.Labels = map[string]string{"fairlead": "yes"} }
	s.service(t, "out", nil)
	s.service(t, "in", opted)
	s.publish(t, "in", serve(t, "in"), ready())
	address := s.served(t, "in")
	answers(t, endpoint(address, 8080), "in")
	s.await(t, "out", "is not touched", all2(guarded(), at()))
	if n := s.writesSince(t, mark, func(r request) bool { return s.about(r, "out") }); len(n) > 0 {
		t.Errorf("the controller wrote for a Service that is not selected: %v", n)
	}
	s.change(t, "out", opted)
	s.served(t, "out")
	s.change(t, "in", func(svc *corev1.Service) { svc.Labels = nil })
	s.await(t, "in", "has nothing of ours", all2(guarded(), at()))
	silent(t, endpoint(address, 8080), "")
	s.change(t, "in", opted)
	s.served(t, "in")

	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	patch := func(text string) {
		t.Helper()
		if err := s.client.Patch(t.Context(), ns, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	patch(`{"metadata":{"labels":{"fairlead.dev/e2e":"no"}}}`)
	s.await(t, "in", "has nothing of ours", all2(guarded(), at()))
	s.await(t, "out", "has nothing of ours", all2(guarded(), at()))
	patch(`{"metadata":{"labels":{"fairlead.dev/e2e":"yes"}}}`)
	s.served(t, "in")
}

// TestLeader: of two controllers one serves, both are ready, and the other
// takes over when the first is killed.
func TestLeader(t *testing.T) {
	election := settings{"leaderElection": settings{"enabled": true, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}}
	first := start(t, election)
	s := newSpace(t)
	s.service(t, "lb", nil)
	pod := serve(t, "pod")
	s.publish(t, "lb", pod, ready())
	address := s.served(t, "lb")
	answers(t, endpoint(address, 8080), "pod")
	second := start(t, election)
	if leads := second.leads(t); leads {
		t.Error("both lead")
	}
	first.kill(t)
	answers(t, endpoint(address, 8080), "pod")
	if !second.leads(t) {
		t.Error("the second serves and does not lead")
	}
	s.await(t, "lb", "keeps its address", at(address))
	s.service(t, "next", nil)
	s.served(t, "next")
	second.stop(t)
	// A graceful stop gives the Lease back: the next one need not wait for it.
	first.run(t)
	answers(t, endpoint(address, 8080), "pod")
	s.await(t, "lb", "keeps its address", at(address))
}

// leads tells whether the process has begun to reconcile.
func (p *program) leads(t *testing.T) bool {
	t.Helper()
	n, err := p.counter("leader_election_master_status")
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// TestReady: ready is who has looked at every Service that was there.
func TestReady(t *testing.T) {
	p := start(t, nil)
	s := newSpace(t)
	const n = 30
	pod := serve(t, "pod")
	addresses := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("lb-%d", i)
		s.service(t, name, nil)
		s.publish(t, name, pod, ready())
	}
	for i := range n {
		name := fmt.Sprintf("lb-%d", i)
		addresses[name] = s.served(t, name)
	}
	p.stop(t)
	p.run(t) // returns when ready
	for name, address := range addresses {
		if who, _, err := ask(endpoint(address, 8080), ""); err != nil || who != "pod" {
			t.Errorf("the controller is ready, and %s at %s says %q, %v", name, address, who, err)
		}
	}
}

// TestGracefulStop: who stops leaves nothing half done and nothing running, and
// cleans up nothing.
func TestGracefulStop(t *testing.T) {
	p := start(t, nil)
	s := newSpace(t)
	s.service(t, "lb", nil)
	s.publish(t, "lb", serve(t, "pod"), ready())
	address := s.served(t, "lb")
	answers(t, endpoint(address, 8080), "pod")
	before, err := s.get(t.Context(), "lb")
	if err != nil {
		t.Fatal(err)
	}
	p.stop(t)
	after, err := s.get(t.Context(), "lb")
	if err != nil {
		t.Fatal(err)
	}
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("the stop changed the Service: %v", after.Status)
	}
	if name, _, err := ask(endpoint(address, 8080), ""); err == nil {
		t.Errorf("%s answers after the stop", name)
	}
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "level=ERROR") {
		t.Errorf("errors were logged:\n%s", p.tail())
	}
	// Deleted while nobody runs: waits for the finalizer, goes at the next start.
	s.delete(t, "lb")
	if svc, err := s.get(t.Context(), "lb"); err != nil || kube.FindCondition(svc, status.Programmed) == nil {
		t.Errorf("the Service did not wait: %v", err)
	}
	p.run(t)
	s.gone(t, "lb")
	s.unrecorded(t, "lb")
}
