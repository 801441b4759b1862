//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/status"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// TestHealing takes away, as another writer, what the controller wrote. All of
// it comes back by itself, where upstream's controller leaves it broken
// (kubernetes/kubernetes#136316), and then nothing more is written.
func TestHealing(t *testing.T) {
	start(t, settings{"defaultProvider": "local"})
	manager := "somebody"
	cases := map[string]struct {
		reason string
		damage func(*testing.T, space)
	}{
		"status": {"another writer cleared it", func(t *testing.T, s space) {
			s.changeStatus(t, "lb", manager, func(svc *corev1.Service) { svc.Status = corev1.ServiceStatus{} })
		}},
		"ingress": {"another writer put its own", func(t *testing.T, s space) {
			mode := corev1.LoadBalancerIPModeVIP
			s.changeStatus(t, "lb", manager, func(svc *corev1.Service) {
				svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.9", IPMode: &mode}}
			})
		}},
		"conditions": {"another writer turned them round", func(t *testing.T, s space) {
			s.changeStatus(t, "lb", manager, func(svc *corev1.Service) {
				for i := range svc.Status.Conditions {
					svc.Status.Conditions[i].Status, svc.Status.Conditions[i].Message = metav1.ConditionFalse, "no"
				}
			})
		}},
		"finalizers": {"kubectl patch", func(t *testing.T, s space) {
			s.change(t, "lb", func(svc *corev1.Service) { svc.Finalizers = nil })
		}},
		"shared_finalizer": {"upstream's controller strips it", func(t *testing.T, s space) {
			s.change(t, "lb", func(svc *corev1.Service) { svc.Finalizers = []string{translate.Finalizer} })
		}},
		"annotations": {"kubectl annotate", func(t *testing.T, s space) {
			s.change(t, "lb", func(svc *corev1.Service) { svc.Annotations = nil })
		}},
		"AL-8_GitOps_PUT": {"a replace without finalizers and annotations erases ours", func(t *testing.T, s space) {
			s.change(t, "lb", func(svc *corev1.Service) { svc.Finalizers, svc.Annotations = nil, nil })
		}},
		"record": {"an operator deleted our resource", func(t *testing.T, s space) {
			record := &v1alpha1.ServiceRecord{ObjectMeta: metav1.ObjectMeta{Namespace: "fairlead-system", Name: v1alpha1.RecordName(s.name, "lb")}}
			if err := s.client.Delete(t.Context(), record); err != nil {
				t.Fatal(err)
			}
		}},
		"record_content": {"an operator edited our resource", func(t *testing.T, s space) {
			record := &v1alpha1.ServiceRecord{ObjectMeta: metav1.ObjectMeta{Namespace: "fairlead-system", Name: v1alpha1.RecordName(s.name, "lb")}}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"addresses":null}}`))
			if err := s.client.Patch(t.Context(), record, patch); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t)
			s.service(t, "lb", classless)
			s.publish(t, "lb", serve(t, "pod"), ready())
			address := s.served(t, "lb")
			began := time.Now()
			tc.damage(t, s)
			whole := all2(current, at(address), guarded(translate.Finalizer, translate.SharedFinalizer),
				says(status.Accepted, metav1.ConditionTrue, ""), says(status.Programmed, metav1.ConditionTrue, ""))
			s.await(t, "lb", "is mended ("+tc.reason+")", whole)
			eventually(t, "its record is mended", func() error { return s.recorded(t.Context(), "lb", address) })
			t.Logf("mended within %v", time.Since(began).Round(time.Millisecond))
			answers(t, endpoint(address, 8080), "pod")
		})
	}
}

// recorded checks the record of a Service.
func (s space) recorded(ctx context.Context, name string, addresses ...string) error {
	var record v1alpha1.ServiceRecord
	key := client.ObjectKey{Namespace: "fairlead-system", Name: v1alpha1.RecordName(s.name, name)}
	if err := s.client.Get(ctx, key, &record); err != nil {
		return err
	}
	if fmt.Sprint(record.Spec.Addresses) != fmt.Sprint(addresses) {
		return fmt.Errorf("the record holds %v, not %v", record.Spec.Addresses, addresses)
	}
	return nil
}

// TestWrites counts requests: a new Service costs at most three writes to the
// Service, and a steady state none, through resyncs and through changes that
// bear on nothing.
func TestWrites(t *testing.T) {
	p := start(t, settings{"resyncPeriod": "10s"})
	s := newSpace(t)
	mark := s.watermark(t)
	names := []string{"a", "b", "c"}
	pod := serve(t, "pod")
	for _, name := range names {
		s.service(t, name, nil)
		s.publish(t, name, pod, ready())
		s.served(t, name)
	}
	for _, name := range names {
		n := s.writesSince(t, mark, func(r request) bool { return s.onService(r) && r.ObjectRef.Name == name })
		if got := n["patch services/status"]; got < 1 || got > 3 || len(n) != 1 {
			t.Errorf("service %s took the writes %v, not 1 to 3 patches of its status", name, n)
		}
	}
	s.settle(t, p)

	mark = s.watermark(t)
	s.patch(t, "a", `{"metadata":{"labels":{"irrelevant":"yes"},"annotations":{"example.com/irrelevant":"yes"}}}`)
	s.patch(t, "b", `{"spec":{"internalTrafficPolicy":"Local"}}`)
	s.await(t, "b", "told that its spec was seen", current)
	s.publish(t, "c", serve(t, "pod-2"), ready())
	n := s.writesSince(t, mark, func(r request) bool { return s.here(r) && !s.about(r, "b") })
	if len(n) > 0 {
		t.Errorf("a label, a foreign annotation and a new endpoint led to the writes %v", n)
	}
	s.settle(t, p)

	mark = s.watermark(t)
	begin := s.reconciles(t, p)
	// Each Service is looked at once in 5 to 10 seconds.
	eventually(t, "each Service was looked at twice", func() error {
		if n := s.reconciles(t, p) - begin; n < float64(2*len(names)+1) {
			return fmt.Errorf("%v looks so far", n)
		}
		return nil
	})
	if n := s.writesSince(t, mark, s.here); len(n) > 0 {
		t.Errorf("two resyncs led to the writes %v", n)
	}
}

func (s space) reconciles(t *testing.T, p *program) float64 {
	t.Helper()
	n, err := p.counter("controller_runtime_reconcile_total")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// settle waits until nothing has been reconciled between two looks a while
// apart, of which there are as many as it takes.
func (s space) settle(t *testing.T, p *program) {
	t.Helper()
	last, quiet := -1.0, 0
	eventually(t, "the controller has nothing to do", func() error {
		now := s.reconciles(t, p)
		if now == last {
			quiet++
		} else {
			last, quiet = now, 0
		}
		if quiet < 10 {
			return errors.New("it works")
		}
		return nil
	})
}

// TestCoexistence is about other writers who mean well: what they own on a
// Service stays theirs, whatever we write.
func TestCoexistence(t *testing.T) {
	start(t, settings{"defaultProvider": "local"})
	t.Run("AL-12_foreign_condition_and_finalizer_stay", func(t *testing.T) {
		t.Parallel()
		s := newSpace(t)
		s.service(t, "lb", func(svc *corev1.Service) {
			classless(svc)
			svc.Finalizers = []string{"example.com/keep"}
		})
		address := s.served(t, "lb")
		s.apply(t, "lb", map[string]any{"conditions": []metav1.Condition{{
			Type: "example.com/Seen", Status: metav1.ConditionTrue, Reason: "Seen", Message: "seen", LastTransitionTime: metav1.Now(),
		}}})
		s.change(t, "lb", func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8443 })
		foreign := says("example.com/Seen", metav1.ConditionTrue, "Seen")
		s.await(t, "lb", "keeps the foreign condition", all2(current, at(address), foreign,
			guarded("example.com/keep", translate.Finalizer, translate.SharedFinalizer)))
		s.change(t, "lb", ofType(corev1.ServiceTypeClusterIP))
		s.await(t, "lb", "keeps what is foreign, and loses what is ours", all2(foreign, guarded("example.com/keep"), func(svc *corev1.Service) error {
			if len(svc.Status.Conditions) != 1 || svc.Annotations[annotation.Observed.Key()] != "" {
				return fmt.Errorf("it has the conditions %v and annotations %v", svc.Status.Conditions, svc.Annotations)
			}
			return nil
		}))
		s.change(t, "lb", func(svc *corev1.Service) { svc.Finalizers = nil })
	})
	t.Run("AL-13_a_finalizer_stored_twice_goes_whole", func(t *testing.T) {
		t.Parallel()
		s := newSpace(t)
		s.service(t, "lb", nil)
		s.served(t, "lb")
		s.change(t, "lb", func(svc *corev1.Service) { svc.Finalizers = append(svc.Finalizers, translate.Finalizer) })
		s.await(t, "lb", "has it once", guarded(translate.Finalizer))
		s.delete(t, "lb")
		s.gone(t, "lb")
	})
	t.Run("ConflictingController", func(t *testing.T) {
		t.Parallel()
		rivalry(t, newSpace(t))
	})
}

// apply is a server-side apply of another manager on the status.
func (s space) apply(t *testing.T, name string, state map[string]any) {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"namespace": s.name, "name": name}, "status": state,
	})
	if err != nil {
		t.Fatal(err)
	}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}}
	if err := s.client.Status().Patch(t.Context(), svc, client.RawPatch(types.ApplyPatchType, text), client.FieldOwner("seer")); err != nil {
		t.Fatal(err)
	}
}

// rivalry: another controller, which does not mind classes, rewrites the ingress
// whenever it is not its own. We stop writing and say who it is.
func rivalry(t *testing.T, s space) {
	s.service(t, "lb", classless)
	s.served(t, "lb")
	mode := corev1.LoadBalancerIPModeVIP
	theirs := []corev1.LoadBalancerIngress{{IP: "203.0.113.9", IPMode: &mode}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rewrites := make(chan struct{}, 100)
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			svc, err := s.get(ctx, "lb")
			if err == nil && at("203.0.113.9")(svc) != nil {
				svc.Status.LoadBalancer.Ingress = theirs
				if s.client.Status().Update(ctx, svc, client.FieldOwner("other-cloud")) == nil {
					rewrites <- struct{}{}
				}
			}
			<-tick.C
		}
	}()
	svc := s.await(t, "lb", "has a conflict", all2(says(status.Programmed, metav1.ConditionFalse, "ConflictingController"), at("203.0.113.9")))
	if c := kube.FindCondition(svc, status.Programmed); !contains(c.Message, "other-cloud") {
		t.Errorf("the message does not name the other manager: %s", c.Message)
	}
	if n := len(rewrites); n > 5 {
		t.Errorf("the other controller had to write %d times", n)
	}
	// More of the same is no reason to write.
	mark := s.watermark(t)
	for i := range 5 {
		mode := corev1.LoadBalancerIPModeVIP
		theirs := []corev1.LoadBalancerIngress{{IP: "203.0.113.9", IPMode: &mode}, {IP: fmt.Sprintf("203.0.113.%d", 100+i), IPMode: &mode}}
		cancel()
		s.changeStatus(t, "lb", "other-cloud", func(svc *corev1.Service) { svc.Status.LoadBalancer.Ingress = theirs })
	}
	s.service(t, "after", classless)
	s.served(t, "after")
	n := s.writesSince(t, mark, func(r request) bool { return s.onService(r) && r.ObjectRef.Name == "lb" })
	if n["patch services/status"] > 1 {
		t.Errorf("the controller goes on writing: %v", n)
	}
}
