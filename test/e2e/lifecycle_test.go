//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/status"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// TestLifecycle is about Services that come, go, change their type and class,
// and come back under the same name.
func TestLifecycle(t *testing.T) {
	start(t, settings{"defaultProvider": "local"})
	cases := map[string]func(*testing.T, space){
		"SC-16_same_name_new_object":              sameName,
		"AL-1_D2_type_away_and_back":              typeAwayAndBack,
		"W6_D2_class_to_another_class_by_type":    classChange,
		"AL-5_nothing_is_added_while_it_goes":     deletingObject,
		"D1_shared_finalizer_stripped_on_delete":  strippedOnDelete,
		"AL-7_foreign_finalizer_holds_the_object": heldByAnother,
		"E-8_own_class_has_only_our_finalizer":    classFinalizer,
		"W14_events_tell_news_once":               eventsOnce,
		"one_bad_Service_disturbs_no_other":       badNeighbour,
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, newSpace(t))
		})
	}
}

// sameName: deleted and created again at once. The second object is served in
// its own right, at the same address, which was held for it.
func sameName(t *testing.T, s space) {
	for i := range 5 {
		pod := serve(t, fmt.Sprintf("pod-%d", i))
		s.service(t, "lb", nil)
		s.publish(t, "lb", pod, ready())
		address := s.served(t, "lb")
		answers(t, endpoint(address, 8080), pod.name)
		s.withdraw(t, "lb", pod)
		s.delete(t, "lb")
		eventually(t, "the name is free", func() error {
			err := s.client.Create(t.Context(), s.draft("lb", nil))
			if apierrors.IsAlreadyExists(err) {
				return err
			}
			if err != nil {
				t.Fatal(err)
			}
			return nil
		})
		if again := s.served(t, "lb"); again != address {
			t.Errorf("round %d: the address was %s and is %s", i, address, again)
		}
		s.delete(t, "lb")
		s.gone(t, "lb")
	}
}

// typeAwayAndBack: everything of ours goes with the type, and the address
// comes back with it.
func typeAwayAndBack(t *testing.T, s space) {
	s.service(t, "lb", nil)
	pod := serve(t, "pod")
	s.publish(t, "lb", pod, ready())
	address := s.served(t, "lb")
	answers(t, endpoint(address, 8080), "pod")
	s.change(t, "lb", ofType(corev1.ServiceTypeClusterIP))
	s.await(t, "lb", "has nothing of ours", all2(guarded(), at(), func(svc *corev1.Service) error {
		if len(svc.Status.Conditions) > 0 {
			return fmt.Errorf("conditions are left: %v", svc.Status.Conditions)
		}
		return nil
	}))
	silent(t, endpoint(address, 8080), "")
	s.unrecorded(t, "lb")
	s.change(t, "lb", func(svc *corev1.Service) {
		own := class
		svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &own
	})
	if again := s.served(t, "lb"); again != address {
		t.Errorf("the address was %s and is %s", address, again)
	}
	answers(t, endpoint(address, 8080), "pod")
}

// unrecorded waits until a Service has no record.
func (s space) unrecorded(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the record is gone", func() error {
		var record v1alpha1.ServiceRecord
		err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "fairlead-system", Name: v1alpha1.RecordName(s.name, name)}, &record)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// classChange: two writes that look like a change of class. The load balancer
// is cleaned up, although the Service is another controller's by then.
func classChange(t *testing.T, s space) {
	s.service(t, "lb", nil)
	s.publish(t, "lb", serve(t, "pod"), ready())
	address := s.served(t, "lb")
	answers(t, endpoint(address, 8080), "pod")
	s.change(t, "lb", ofType(corev1.ServiceTypeClusterIP))
	s.change(t, "lb", func(svc *corev1.Service) {
		other := "example.com/other"
		svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &other
	})
	s.await(t, "lb", "has nothing of ours", all2(guarded(), at(), func(svc *corev1.Service) error {
		if len(svc.Status.Conditions) > 0 {
			return fmt.Errorf("conditions are left: %v", svc.Status.Conditions)
		}
		return nil
	}))
	silent(t, endpoint(address, 8080), "")
	s.unrecorded(t, "lb")
}

// deletingObject: a Service that is being deleted and has not our finalizer is
// left alone; the API server would refuse a new one with 422.
func deletingObject(t *testing.T, s space) {
	s.service(t, "going", func(svc *corev1.Service) {
		*svc.Spec.LoadBalancerClass = "example.com/other"
		svc.Finalizers = []string{"example.com/keep"}
	})
	s.delete(t, "going")
	mark := s.watermark(t)
	s.change(t, "going", ofType(corev1.ServiceTypeClusterIP))
	s.change(t, "going", func(svc *corev1.Service) {
		own := class
		svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &own
	})
	s.service(t, "after", nil)
	s.served(t, "after")
	going := func(r request) bool { return s.here(r) && strings.HasSuffix(r.ObjectRef.Name, "going") }
	if n := s.writesSince(t, mark, going); len(n) > 0 {
		t.Errorf("the controller wrote for it: %v", n)
	}
	s.change(t, "going", func(svc *corev1.Service) { svc.Finalizers = nil })
	s.gone(t, "going")
}

// strippedOnDelete: upstream's controller takes the shared finalizer off
// Services of any class; ours of our own still guards.
func strippedOnDelete(t *testing.T, s space) {
	s.service(t, "lb", func(svc *corev1.Service) { svc.Finalizers = []string{translate.SharedFinalizer} })
	s.publish(t, "lb", serve(t, "pod"), ready())
	address := s.served(t, "lb")
	answers(t, endpoint(address, 8080), "pod")
	s.delete(t, "lb")
	s.await(t, "lb", "keeps the finalizer that is not ours here", guarded(translate.SharedFinalizer))
	silent(t, endpoint(address, 8080), "")
	s.unrecorded(t, "lb")
	s.change(t, "lb", func(svc *corev1.Service) { svc.Finalizers = nil })
	s.gone(t, "lb")
}

// heldByAnother: clean-up does not wait for others' finalizers, and is not done
// again while they hold the object.
func heldByAnother(t *testing.T, s space) {
	s.service(t, "lb", func(svc *corev1.Service) { svc.Finalizers = []string{"example.com/keep"} })
	s.publish(t, "lb", serve(t, "pod"), ready())
	address := s.served(t, "lb")
	answers(t, endpoint(address, 8080), "pod")
	s.delete(t, "lb")
	s.await(t, "lb", "has only the other finalizer", guarded("example.com/keep"))
	silent(t, endpoint(address, 8080), "")
	mark := s.watermark(t)
	s.patch(t, "lb", `{"metadata":{"labels":{"a":"b"}}}`)
	s.service(t, "after", nil)
	s.served(t, "after")
	lb := func(r request) bool { return s.onService(r) && r.ObjectRef.Name == "lb" }
	if n := s.writesSince(t, mark, lb); len(n) > 0 {
		t.Errorf("the controller goes on writing: %v", n)
	}
	s.change(t, "lb", func(svc *corev1.Service) { svc.Finalizers = nil })
	s.gone(t, "lb")
}

func classFinalizer(t *testing.T, s space) {
	s.service(t, "lb", nil)
	s.served(t, "lb")
	s.await(t, "lb", "has one finalizer", guarded(translate.Finalizer))
}

// eventsOnce: what happened is told once, in upstream's words, and a warning is
// one event that is renewed.
func eventsOnce(t *testing.T, s space) {
	s.service(t, "lb", asking("address", "192.0.2.250"))
	s.refused(t, "lb", "AddressNotInPool")
	s.change(t, "lb", asking("address", "192.0.2.251"))
	s.await(t, "lb", "is refused again", current)
	s.change(t, "lb", asking("address", "192.0.2.252"))
	s.await(t, "lb", "is refused again", current)
	eventually(t, "one warning, told three times", func() error {
		events, err := s.events(t.Context(), "lb")
		if err != nil {
			return err
		}
		warnings := slices.DeleteFunc(slices.Clone(events), func(e corev1.Event) bool { return e.Type != corev1.EventTypeWarning })
		if len(warnings) != 1 {
			return fmt.Errorf("%d warnings among %d events", len(warnings), len(events))
		}
		if w := warnings[0]; w.Count < 3 || !contains(w.Message, "192.0.2.252") || w.Reason != "AddressNotInPool" {
			return fmt.Errorf("the warning is %s ×%d: %s", w.Reason, w.Count, w.Message)
		}
		return nil
	})
	s.change(t, "lb", annotated("fairlead.dev/address", "-"))
	s.served(t, "lb")
	s.patch(t, "lb", `{"metadata":{"labels":{"a":"b"}}}`)
	eventually(t, "Ensured is told once", func() error {
		events, err := s.events(t.Context(), "lb")
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Reason == "EnsuredLoadBalancer" && e.Count == 1 && contains(e.Message, "Ensured load balancer") {
				return nil
			}
		}
		return fmt.Errorf("it is not among %d events", len(events))
	})
}

// badNeighbour: Services that cannot be served, for every sort of reason, hold
// up none that can.
func badNeighbour(t *testing.T, s space) {
	s.service(t, "bad-address", asking("address", "192.0.2.250"))
	s.service(t, "bad-option", asking("proxy-protocol", "v9"))
	s.service(t, "bad-ranges", asking("source-ranges", "everybody"))
	s.service(t, "bad-port", func(svc *corev1.Service) { svc.Spec.Ports[0].Protocol = corev1.ProtocolSCTP })
	for i := range 5 {
		name := fmt.Sprintf("good-%d", i)
		s.service(t, name, nil)
		s.publish(t, name, serve(t, "pod"), ready())
		answers(t, endpoint(s.served(t, name), 8080), "pod")
	}
	s.refused(t, "bad-address", "AddressNotInPool")
	s.refused(t, "bad-ranges", "NotAccepted")
	s.refused(t, "bad-port", "PortsFailed")
	s.await(t, "bad-option", "is told", all2(current, says(status.Accepted, metav1.ConditionFalse, "InvalidOptions")))
}
