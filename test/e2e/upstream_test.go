//go:build linux

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/internal/translate"
)

// TestUpstream runs those end-to-end tests of Kubernetes that concern what a
// load balancer promises, as far as they need no kubelet. They speak of Services
// without a class.
func TestUpstream(t *testing.T) {
	start(t, settings{"defaultProvider": "local"})
	cases := map[string]func(*testing.T, space){
		"E-1_change_type_and_ports_of_a_TCP_service":       changeTCP,
		"E-2_change_type_and_ports_of_a_UDP_service":       changeUDP,
		"E-3_only_allow_access_from_source_ranges":         sourceRanges,
		"E-4_E-6_session_affinity":                         affinity,
		"E-5_E-7_switch_session_affinity":                  switchAffinity,
		"E-8_load_balancer_cleanup_finalizer":              finalizerLifecycle,
		"E-9_create_without_node_port_and_change_it":       nodePorts,
		"E-10_E-11_preserve_UDP_traffic":                   replaceUDP,
		"E-12_no_connectivity_disruption_rolling_update":   rollingUpdate,
		"E-20_status_lifecycle_of_a_foreign_class":         foreignClass,
		"E-22_same_port_different_protocols":               bothProtocols,
		"E-33_ports_and_ipMode_of_the_status_follow_ports": statusFollows,
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, newSpace(t))
		})
	}
}

// changeTCP: a Service goes ClusterIP, NodePort, LoadBalancer, another node
// port, another port, no pods, pods, ClusterIP. The address stays as long as it
// is a load balancer, and is closed afterwards.
func changeTCP(t *testing.T, s space) {
	s.service(t, "mutable", all(classless, func(svc *corev1.Service) {
		svc.Spec.Type, svc.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeClusterIP, nil
	}))
	pod := serve(t, "pod")
	s.publish(t, "mutable", pod, ready())
	node := s.change(t, "mutable", ofType(corev1.ServiceTypeNodePort)).Spec.Ports[0].NodePort
	if node == 0 {
		t.Fatal("a NodePort Service has no node port")
	}
	s.change(t, "mutable", ofType(corev1.ServiceTypeLoadBalancer))
	address := s.served(t, "mutable")
	answers(t, endpoint(address, 8080), "pod")
	if svc := s.await(t, "mutable", "there", current); svc.Spec.Ports[0].NodePort != node {
		t.Errorf("becoming a load balancer changed the node port %d to %d", node, svc.Spec.Ports[0].NodePort)
	}

	if s.changeNodePort(t, "mutable") == node {
		t.Error("the node port is the same")
	}
	s.await(t, "mutable", "keeps its address", all2(current, at(address)))
	answers(t, endpoint(address, 8080), "pod")

	s.change(t, "mutable", func(svc *corev1.Service) { svc.Spec.Ports[0].Port++ })
	s.await(t, "mutable", "keeps its address", all2(current, at(address)))
	answers(t, endpoint(address, 8081), "pod")
	silent(t, endpoint(address, 8080), "")

	s.withdraw(t, "mutable", pod)
	silent(t, endpoint(address, 8081), "")
	s.publish(t, "mutable", pod, ready())
	answers(t, endpoint(address, 8081), "pod")

	s.change(t, "mutable", ofType(corev1.ServiceTypeClusterIP))
	s.await(t, "mutable", "is no load balancer", all2(at(), guarded()))
	silent(t, endpoint(address, 8081), "")
}

// ofType changes the type, and drops the node ports that a ClusterIP may not have.
func ofType(kind corev1.ServiceType) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.Type = kind
		for i := range svc.Spec.Ports {
			if kind == corev1.ServiceTypeClusterIP {
				svc.Spec.Ports[i].NodePort = 0
			}
		}
	}
}

func changeUDP(t *testing.T, s space) {
	s.service(t, "mutable", all(classless, func(svc *corev1.Service) {
		svc.Spec.Type, svc.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeClusterIP, nil
		svc.Spec.Ports[0].Protocol = corev1.ProtocolUDP
	}))
	pod := serve(t, "pod")
	s.publish(t, "mutable", pod, ready())
	s.change(t, "mutable", ofType(corev1.ServiceTypeNodePort))
	s.change(t, "mutable", ofType(corev1.ServiceTypeLoadBalancer))
	address := s.served(t, "mutable")
	answersUDP(t, endpoint(address, 8080), "pod")
	s.change(t, "mutable", func(svc *corev1.Service) { svc.Spec.Ports[0].Port++ })
	s.await(t, "mutable", "keeps its address", all2(current, at(address)))
	answersUDP(t, endpoint(address, 8081), "pod")
	silentUDP(t, endpoint(address, 8080))
	s.withdraw(t, "mutable", pod)
	silentUDP(t, endpoint(address, 8081))
	s.publish(t, "mutable", pod, ready())
	answersUDP(t, endpoint(address, 8081), "pod")
	s.change(t, "mutable", ofType(corev1.ServiceTypeClusterIP))
	s.await(t, "mutable", "is no load balancer", all2(at(), guarded()))
	silentUDP(t, endpoint(address, 8081))
}

// sourceRanges: who may reach the Service changes under way.
func sourceRanges(t *testing.T, s space) {
	s.service(t, "ranged", classless)
	s.publish(t, "ranged", serve(t, "pod"), ready())
	to := endpoint(s.served(t, "ranged"), 8080)
	accepted, dropped := ownAddress(250, 1), ownAddress(250, 2)
	from := func(address string, admitted bool) {
		t.Helper()
		if !admitted {
			silent(t, to, address)
			return
		}
		eventually(t, address+" is admitted", func() error {
			_, _, err := ask(to, address)
			return err
		})
	}
	ranges := func(cidrs ...string) {
		t.Helper()
		s.change(t, "ranged", func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = cidrs })
		s.await(t, "ranged", "has new ranges", current)
	}
	from(accepted, true)
	from(dropped, true)
	ranges(accepted + "/32")
	from(accepted, true)
	from(dropped, false)
	ranges("0.0.0.0/1", "128.0.0.0/1")
	from(accepted, true)
	from(dropped, true)
	ranges("255.0.0.0/32")
	from(accepted, false)
	from(dropped, false)
	ranges()
	from(accepted, true)
	from(dropped, true)
}

// threePods gives a Service three backends and returns where it is served.
func threePods(t *testing.T, s space, edit func(*corev1.Service)) string {
	t.Helper()
	s.service(t, "sticky", all(classless, edit))
	for _, name := range []string{"a", "b", "c"} {
		s.publish(t, "sticky", serve(t, name), ready())
	}
	return endpoint(s.served(t, "sticky"), 8080)
}

func withAffinity(kind corev1.ServiceAffinity) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.SessionAffinity = kind }
}

func withPolicy(policy corev1.ServiceExternalTrafficPolicy) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.ExternalTrafficPolicy = policy }
}

// hosts counts who answers n questions from one client.
func hosts(t *testing.T, to, from string, n int) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for range n {
		name, _, err := ask(to, from)
		if err != nil {
			t.Fatal(err)
		}
		seen[name]++
	}
	return seen
}

// holdsOn waits until 15 connections in a row hit one host, as upstream does.
func holdsOn(t *testing.T, to string) {
	t.Helper()
	eventually(t, "one host answers 15 times in a row", func() error {
		if seen := hosts(t, to, "", 15); len(seen) > 1 {
			return fmt.Errorf("%v answer", seen)
		}
		return nil
	})
}

func spreads(t *testing.T, to string) {
	t.Helper()
	eventually(t, "several hosts answer", func() error {
		if seen := hosts(t, to, "", 15); len(seen) < 2 {
			return fmt.Errorf("only %v answer", seen)
		}
		return nil
	})
}

// affinity: a client stays with its pod, under both traffic policies.
func affinity(t *testing.T, s space) {
	to := threePods(t, s, withAffinity(corev1.ServiceAffinityClientIP))
	holdsOn(t, to)
	s.change(t, "sticky", withPolicy(corev1.ServiceExternalTrafficPolicyLocal))
	s.await(t, "sticky", "has another policy", current)
	holdsOn(t, to)
}

func switchAffinity(t *testing.T, s space) {
	to := threePods(t, s, withAffinity(corev1.ServiceAffinityNone))
	spreads(t, to)
	s.change(t, "sticky", withAffinity(corev1.ServiceAffinityClientIP))
	holdsOn(t, to)
	s.change(t, "sticky", withAffinity(corev1.ServiceAffinityNone))
	spreads(t, to)
}

// finalizerLifecycle: the shared finalizer stands as long as a class-less
// Service is a load balancer.
func finalizerLifecycle(t *testing.T, s space) {
	s.service(t, "lb", classless)
	both := guarded(translate.Finalizer, translate.SharedFinalizer)
	s.await(t, "lb", "has the finalizers", both)
	s.served(t, "lb")
	s.change(t, "lb", ofType(corev1.ServiceTypeClusterIP))
	s.await(t, "lb", "has no finalizer", guarded())
	s.change(t, "lb", ofType(corev1.ServiceTypeLoadBalancer))
	s.await(t, "lb", "has the finalizers again", both)
	s.served(t, "lb")
	s.delete(t, "lb")
	s.gone(t, "lb")
}

// nodePorts: a load balancer that needs no node ports works without, and goes
// on when they appear.
func nodePorts(t *testing.T, s space) {
	s.service(t, "lb", classless)
	s.publish(t, "lb", serve(t, "pod"), ready())
	address := s.served(t, "lb")
	answers(t, endpoint(address, 8080), "pod")
	svc := s.change(t, "lb", func(svc *corev1.Service) { *svc.Spec.AllocateLoadBalancerNodePorts = true })
	if svc.Spec.Ports[0].NodePort == 0 {
		t.Error("the API server has given no node port")
	}
	s.await(t, "lb", "keeps its address", all2(current, at(address)))
	answers(t, endpoint(address, 8080), "pod")
}

// replaceUDP: a client that always uses the same port gets to the new pod when
// its pod is replaced (a blackhole in many data planes).
func replaceUDP(t *testing.T, s space) {
	s.service(t, "lb", all(classless, func(svc *corev1.Service) { svc.Spec.Ports[0].Protocol = corev1.ProtocolUDP }))
	first := serve(t, "first")
	s.publish(t, "lb", first, ready())
	c, err := dial("udp", endpoint(s.served(t, "lb"), 8080), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	by := func(want string) {
		t.Helper()
		eventually(t, want+" answers the same socket", func() error {
			name, err := askUDP(c)
			if err == nil && name != want {
				err = fmt.Errorf("%q answers", name)
			}
			return err
		})
	}
	by("first")
	s.publish(t, "lb", serve(t, "second"), ready())
	s.withdraw(t, "lb", first)
	first.close()
	by("second")
}

// rollingUpdate replaces the pod five times in a row under constant load. Upstream
// asks for 95 of 100 questions to be answered; here all have to be.
func rollingUpdate(t *testing.T, s space) {
	s.service(t, "lb", classless)
	old := serve(t, "pod-0")
	s.publish(t, "lb", old, ready())
	to := endpoint(s.served(t, "lb"), 8080)
	answers(t, to, "pod-0")
	load := poke(t, to)
	for i := 1; i <= 5; i++ {
		next := serve(t, fmt.Sprintf("pod-%d", i))
		s.publish(t, "lb", next, ready())
		s.publish(t, "lb", old, terminating())
		load.steadily(t, next.name)
		s.withdraw(t, "lb", old)
		old.close()
		old = next
	}
	load.heard(t, 50)
	load.halt()
	if err := load.failed(); err != nil {
		t.Error(err)
	}
}

// foreignClass: the conformance test. What somebody else's Service says stays,
// and its deletion is not held up.
func foreignClass(t *testing.T, s space) {
	s.service(t, "theirs", func(svc *corev1.Service) { *svc.Spec.LoadBalancerClass = "example.com/internal-vip" })
	mark := s.watermark(t)
	mode := corev1.LoadBalancerIPModeVIP
	s.changeStatus(t, "theirs", "e2e", func(svc *corev1.Service) {
		svc.Annotations = map[string]string{"patchedstatus": "true"}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1", IPMode: &mode}}
		svc.Status.Conditions = []metav1.Condition{{Type: "StatusUpdate", Status: metav1.ConditionTrue, Reason: "E2E", Message: "Set from e2e test"}}
	})
	// Another Service that is served shows that the controller is past this one.
	s.service(t, "ours", classless)
	s.served(t, "ours")
	svc := s.await(t, "theirs", "is as it was", all2(at("203.0.113.1"), says("StatusUpdate", metav1.ConditionTrue, "E2E"), guarded()))
	if svc.Annotations["patchedstatus"] != "true" {
		t.Errorf("the annotations are %v", svc.Annotations)
	}
	s.delete(t, "theirs")
	s.gone(t, "theirs")
	theirs := func(r request) bool { return r.ObjectRef.Namespace == s.name && r.ObjectRef.Name == "theirs" }
	if n := s.writesSince(t, mark, theirs); len(n) > 0 {
		t.Errorf("the controller wrote to it: %v", n)
	}
}

// bothProtocols: one number, TCP and UDP.
func bothProtocols(t *testing.T, s space) {
	s.service(t, "lb", all(classless, func(svc *corev1.Service) {
		svc.Spec.Ports = []corev1.ServicePort{port("tcp", corev1.ProtocolTCP, 8080), port("udp", corev1.ProtocolUDP, 8080)}
	}))
	s.publish(t, "lb", serve(t, "pod"), ready())
	to := endpoint(s.served(t, "lb"), 8080)
	answers(t, to, "pod")
	answersUDP(t, to, "pod")
}

// statusFollows: the status names the mode, and the present ports when it names
// any: it does once one of them cannot be served.
func statusFollows(t *testing.T, s space) {
	svc := s.service(t, "lb", all(classless, func(svc *corev1.Service) {
		svc.Spec.Ports = []corev1.ServicePort{port("web", corev1.ProtocolTCP, 8080), port("sctp", corev1.ProtocolSCTP, 8080)}
	}))
	name := svc.Name
	s.refused(t, name, "PortsFailed")
	number := func(want int32) func(*corev1.Service) error {
		return func(svc *corev1.Service) error {
			for _, i := range svc.Status.LoadBalancer.Ingress {
				if i.IPMode == nil || *i.IPMode != corev1.LoadBalancerIPModeProxy {
					return fmt.Errorf("ipMode is %v", i.IPMode)
				}
				if len(i.Ports) == 2 && i.Ports[0].Port+i.Ports[1].Port == 8080+want {
					return nil
				}
			}
			return fmt.Errorf("the ingress is %+v", svc.Status.LoadBalancer.Ingress)
		}
	}
	s.await(t, name, "names its ports", number(8080))
	s.change(t, name, func(svc *corev1.Service) { svc.Spec.Ports[0].Port = 8443 })
	s.await(t, name, "names its new ports", all2(current, number(8443)))
}
