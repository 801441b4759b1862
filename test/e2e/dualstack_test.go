//go:build linux

package e2e

import (
	"fmt"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairlead-lb/fairlead/internal/testenv"
)

// TestDualStack is about both families; upstream has no test of load balancers
// with two. There is one IPv6 loopback address, so the cases take turns.
func TestDualStack(t *testing.T) {
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		_ = l.Close()
	} else {
		testenv.Require(t, "the IPv6 loopback address ::1", false)
	}
	start(t, settings{"local": settings{"pools": []string{autoPool(), "::1/128"}}, "addresses": settings{"releaseDelay": "0s"}})
	t.Run("upgrade_and_downgrade", func(t *testing.T) {
		s := newSpace(t)
		s.service(t, "lb", nil)
		s.publish(t, "lb", serve(t, "pod"), ready())
		first := s.served(t, "lb")
		answers(t, endpoint(first, 8080), "pod")
		load := poke(t, endpoint(first, 8080))
		s.change(t, "lb", withFamilies(corev1.IPFamilyPolicyPreferDualStack))
		s.await(t, "lb", "has both, the first one first", all2(current, at(first, "::1")))
		answers(t, endpoint("::1", 8080), "pod")
		s.change(t, "lb", withFamilies(corev1.IPFamilyPolicySingleStack))
		s.await(t, "lb", "has the first one", all2(current, at(first)))
		silent(t, endpoint("::1", 8080), "")
		load.heard(t, 20)
		load.halt()
		if err := load.failed(); err != nil {
			t.Error(err)
		}
	})
	t.Run("IPv6_first", func(t *testing.T) {
		s := newSpace(t)
		s.service(t, "lb", all(withFamilies(corev1.IPFamilyPolicyRequireDualStack), func(svc *corev1.Service) {
			svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		}))
		s.publish(t, "lb", serve(t, "pod"), ready())
		s.served(t, "lb")
		svc := s.await(t, "lb", "shows IPv6 first", func(svc *corev1.Service) error {
			if have := published(svc); len(have) != 2 || have[0] != "::1" {
				return fmt.Errorf("it publishes %v", have)
			}
			return nil
		})
		answers(t, endpoint("::1", 8080), "pod")
		answers(t, endpoint(published(svc)[1], 8080), "pod")
	})
	t.Run("B22_D7_IPv4_ranges_close_IPv6", func(t *testing.T) {
		s := newSpace(t)
		s.service(t, "lb", withFamilies(corev1.IPFamilyPolicyRequireDualStack))
		s.publish(t, "lb", serve(t, "pod"), ready())
		v4 := s.served(t, "lb")
		answers(t, endpoint("::1", 8080), "pod")
		s.change(t, "lb", func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = []string{"127.0.0.0/8"} })
		s.await(t, "lb", "has ranges", current)
		silent(t, endpoint("::1", 8080), "")
		answers(t, endpoint(v4, 8080), "pod")
	})
}
