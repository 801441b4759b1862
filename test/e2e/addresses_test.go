//go:build linux

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/status"
)

// TestAddresses is about who gets which address, and what those are told who
// do not.
func TestAddresses(t *testing.T) {
	start(t, settings{"addresses": settings{"releaseDelay": "1h"}})
	cases := map[string]func(*testing.T, space){
		"AV-5_two_want_one_address_and_port":       sameAddress,
		"AV-1_requests_that_make_no_sense":         senselessRequests,
		"share_within_the_namespace":               shareWithin,
		"allow-shared-ip_across_namespaces":        shareAcross,
		"released_address_is_held_and_comes_back":  heldAddress,
		"RequireDualStack_without_an_IPv6_pool":    dualStackRequired,
		"PreferDualStack_without_an_IPv6_pool":     dualStackPreferred,
		"B22_IPv4_only_source_ranges_close_IPv6":   rangesPerFamily,
		"another_address_is_a_move":                moveAddress,
		"a_request_that_cannot_be_met_moves_none":  unmetRequest,
		"AV-2_published_addresses_are_no_requests": publishedIsNoRequest,
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, newSpace(t))
		})
	}
}

// sameAddress: the second waits, says for whom, and gets it when the first goes;
// it was waiting before the address was released, so nothing is held back.
func sameAddress(t *testing.T, s space) {
	address := ownAddress(200, 20)
	s.service(t, "first", asking("address", address))
	first, second := serve(t, "first"), serve(t, "second")
	s.publish(t, "first", first, ready())
	if got := s.served(t, "first"); got != address {
		t.Fatalf("asked for %s, got %s", address, got)
	}
	s.service(t, "second", asking("address", address))
	s.publish(t, "second", second, ready())
	if m := s.refused(t, "second", "AddressInUse"); !contains(m, s.name+"/first") || !contains(m, address) {
		t.Errorf("the message names neither who has the address nor which: %s", m)
	}
	s.await(t, "second", "publishes nothing", at())
	answers(t, endpoint(address, 8080), "first")
	s.delete(t, "first")
	s.served(t, "second")
	s.await(t, "second", "has the address", at(address))
	answers(t, endpoint(address, 8080), "second")
}

func senselessRequests(t *testing.T, s space) {
	s.service(t, "text", func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "not-an-ip" })
	s.refused(t, "text", "NotAccepted")
	s.await(t, "text", "is told", says(status.Accepted, metav1.ConditionFalse, "InvalidOptions"))
	s.service(t, "family", func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "fd00::7" })
	s.refused(t, "family", "FamilyMismatch")
	s.service(t, "outside", func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "198.51.100.7" })
	if m := s.refused(t, "outside", "AddressNotInPool"); !contains(m, "198.51.100.7") {
		t.Errorf("the message does not name the address: %s", m)
	}
	s.change(t, "text", func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "" })
	s.served(t, "text")
}

// shareWithin: other ports join, the same port does not.
func shareWithin(t *testing.T, s space) {
	s.service(t, "a", asking("share", "web"))
	address := s.served(t, "a")
	second := all(asking("share", "web"), asking("address", address))
	s.service(t, "b", all(second, func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8081 }))
	s.publish(t, "a", serve(t, "a"), ready())
	s.publish(t, "b", serve(t, "b"), ready())
	if got := s.served(t, "b"); got != address {
		t.Errorf("the second has %s, not %s", got, address)
	}
	answers(t, endpoint(address, 8080), "a")
	answers(t, endpoint(address, 8081), "b")
	s.service(t, "c", second)
	s.refused(t, "c", "AddressInUse")
	other := newSpace(t)
	other.service(t, "stranger", all(second, func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8082 }))
	other.refused(t, "stranger", "SharingRefused")
	s.delete(t, "a")
	s.gone(t, "a")
	answers(t, endpoint(address, 8081), "b")
	s.served(t, "c")
}

func shareAcross(t *testing.T, s space) {
	other := newSpace(t)
	key := annotated("metallb.universe.tf/allow-shared-ip", "e2e-"+s.name)
	s.service(t, "a", key)
	address := s.served(t, "a")
	other.service(t, "b", all(key, asking("address", address), func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8081 }))
	if got := other.served(t, "b"); got != address {
		t.Errorf("the second has %s, not %s", got, address)
	}
}

// heldAddress: nobody else meets the late clients of a Service that is gone.
func heldAddress(t *testing.T, s space) {
	address := ownAddress(200, 30)
	s.service(t, "lb", asking("address", address))
	s.served(t, "lb")
	s.delete(t, "lb")
	s.gone(t, "lb")
	name := client.ObjectKey{Namespace: "fairlead-system", Name: address}
	var held v1alpha1.AddressReservation
	if err := s.client.Get(t.Context(), name, &held); err != nil {
		t.Fatal(err)
	}
	s.service(t, "other", asking("address", address))
	if m := s.refused(t, "other", "AddressHeld"); !contains(m, s.name+"/lb") || !contains(m, "until") {
		t.Errorf("the message does not say for whom and until when: %s", m)
	}
	s.service(t, "lb", nil)
	if got := s.served(t, "lb"); got != address {
		t.Errorf("the Service that is back has %s, not %s", got, address)
	}
	eventually(t, "the reservation is over", func() error {
		err := s.client.Get(t.Context(), name, &held)
		if err == nil {
			err = fmt.Errorf("it is there, until %v", held.Spec.Until)
		}
		return client.IgnoreNotFound(err)
	})
	s.refused(t, "other", "AddressInUse")
}

func withFamilies(policy corev1.IPFamilyPolicy) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.IPFamilyPolicy = &policy }
}

func dualStackRequired(t *testing.T, s space) {
	s.service(t, "lb", withFamilies(corev1.IPFamilyPolicyRequireDualStack))
	if m := s.refused(t, "lb", "FamilyUnavailable"); !contains(m, "IPv6") {
		t.Errorf("the message does not name the family: %s", m)
	}
	s.await(t, "lb", "publishes nothing", at())
	s.change(t, "lb", func(svc *corev1.Service) {
		policy := corev1.IPFamilyPolicySingleStack
		svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies, svc.Spec.ClusterIPs = &policy, svc.Spec.IPFamilies[:1], svc.Spec.ClusterIPs[:1]
	})
	s.served(t, "lb")
}

func dualStackPreferred(t *testing.T, s space) {
	s.service(t, "lb", withFamilies(corev1.IPFamilyPolicyPreferDualStack))
	s.publish(t, "lb", serve(t, "pod"), ready())
	svc := s.await(t, "lb", "has the family that there is", all2(current, says(status.Accepted, metav1.ConditionTrue, ""), func(svc *corev1.Service) error {
		if len(svc.Status.LoadBalancer.Ingress) != 1 {
			return fmt.Errorf("the ingress is %+v", svc.Status.LoadBalancer.Ingress)
		}
		return nil
	}))
	answers(t, endpoint(published(svc)[0], 8080), "pod")
}

// rangesPerFamily: one family's ranges admit nobody of the other. Loopback has
// no second family to ask from, so the configured listener is what is seen: a
// client whose family has no range is refused.
func rangesPerFamily(t *testing.T, s space) {
	s.service(t, "lb", asking("source-ranges", "fd00::/8"))
	s.publish(t, "lb", serve(t, "pod"), ready())
	address := s.served(t, "lb")
	silent(t, endpoint(address, 8080), "")
	s.change(t, "lb", asking("source-ranges", "fd00::/8,127.0.0.0/8"))
	answers(t, endpoint(address, 8080), "pod")
}

func moveAddress(t *testing.T, s space) {
	s.service(t, "lb", nil)
	s.publish(t, "lb", serve(t, "pod"), ready())
	before := s.served(t, "lb")
	answers(t, endpoint(before, 8080), "pod")
	after := ownAddress(200, 40)
	s.change(t, "lb", asking("address", after))
	s.await(t, "lb", "has moved", all2(current, at(after)))
	answers(t, endpoint(after, 8080), "pod")
	silent(t, endpoint(before, 8080), "")
}

// unmetRequest: who has an address keeps it, and is told.
func unmetRequest(t *testing.T, s space) {
	s.service(t, "lb", nil)
	s.publish(t, "lb", serve(t, "pod"), ready())
	address := s.served(t, "lb")
	s.change(t, "lb", asking("address", "198.51.100.8"))
	s.refused(t, "lb", status.ReasonAddressNotice)
	s.await(t, "lb", "keeps its address", at(address))
	answers(t, endpoint(address, 8080), "pod")
}

// publishedIsNoRequest: what stands in the status of a Service that was never
// ours, an address somebody else holds even, gives it no right to anything.
func publishedIsNoRequest(t *testing.T, s space) {
	s.service(t, "holder", nil)
	held := s.served(t, "holder")
	mode := corev1.LoadBalancerIPModeVIP
	s.service(t, "claimant", func(svc *corev1.Service) { *svc.Spec.LoadBalancerClass = "example.com/other" })
	s.changeStatus(t, "claimant", "other-cloud", func(svc *corev1.Service) {
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: held, IPMode: &mode}}
	})
	s.change(t, "claimant", ofType(corev1.ServiceTypeClusterIP))
	s.change(t, "claimant", func(svc *corev1.Service) {
		own := class
		svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &own
	})
	if got := s.served(t, "claimant"); got == held {
		t.Errorf("both have %s", got)
	}
	s.await(t, "holder", "keeps its address", at(held))
}
