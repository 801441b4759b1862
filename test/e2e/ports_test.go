//go:build linux

package e2e

import (
	"fmt"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/internal/status"
)

// TestPorts is about ports that cannot be served: each is named with its reason,
// in a condition and in the ingress, and the others serve.
func TestPorts(t *testing.T) {
	start(t, nil)
	cases := map[string]func(*testing.T, space){
		"W12_port_taken_by_another_program": portTaken,
		"SCTP_among_others":                 sctpAmongOthers,
		"renamed_and_reordered_ports":       renamedPorts,
		"port_added_and_removed":            addedPort,
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, newSpace(t))
		})
	}
}

// portStatuses checks what the ingress says of its ports: "port protocol error"
// each, or nothing at all.
func portStatuses(want ...string) func(*corev1.Service) error {
	return func(svc *corev1.Service) error {
		if len(svc.Status.LoadBalancer.Ingress) != 1 {
			return fmt.Errorf("the ingress is %+v", svc.Status.LoadBalancer.Ingress)
		}
		var have []string
		for _, p := range svc.Status.LoadBalancer.Ingress[0].Ports {
			text := fmt.Sprintf("%d %s", p.Port, p.Protocol)
			if p.Error != nil {
				text += " " + *p.Error
			}
			have = append(have, text)
		}
		if fmt.Sprint(have) != fmt.Sprint(want) {
			return fmt.Errorf("the ports are %v, not %v", have, want)
		}
		return nil
	}
}

// portTaken: one port is taken by another program, until that lets go.
func portTaken(t *testing.T, s space) {
	address := ownAddress(200, 10)
	taken, err := net.Listen("tcp", endpoint(address, 8081))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	s.service(t, "lb", all(asking("address", address), func(svc *corev1.Service) {
		svc.Spec.Ports = append(svc.Spec.Ports, port("second", corev1.ProtocolTCP, 8081))
	}))
	s.publish(t, "lb", serve(t, "pod"), ready())
	s.refused(t, "lb", "PortsFailed")
	s.await(t, "lb", "names the port", all2(
		says(status.PortsError, metav1.ConditionTrue, "PortInUse"),
		portStatuses("8080 TCP", "8081 TCP fairlead.dev/PortInUse"),
	))
	answers(t, endpoint(address, 8080), "pod")
	_ = taken.Close()
	s.served(t, "lb")
	s.await(t, "lb", "names no port", all2(portStatuses(), func(svc *corev1.Service) error {
		for _, c := range svc.Status.Conditions {
			if c.Type == status.PortsError {
				return fmt.Errorf("condition %s is %s: %s", c.Type, c.Status, c.Message)
			}
		}
		return nil
	}))
	answers(t, endpoint(address, 8081), "pod")
}

func sctpAmongOthers(t *testing.T, s space) {
	s.service(t, "lb", func(svc *corev1.Service) {
		svc.Spec.Ports = append(svc.Spec.Ports, port("sctp", corev1.ProtocolSCTP, 8080), port("udp", corev1.ProtocolUDP, 8080))
	})
	s.publish(t, "lb", serve(t, "pod"), ready())
	s.refused(t, "lb", "PortsFailed")
	svc := s.await(t, "lb", "names the port", all2(
		says(status.PortsError, metav1.ConditionTrue, "ProtocolNotSupported"),
		portStatuses("8080 SCTP fairlead.dev/ProtocolNotSupported", "8080 TCP", "8080 UDP"),
	))
	answers(t, endpoint(published(svc)[0], 8080), "pod")
	answersUDP(t, endpoint(published(svc)[0], 8080), "pod")
	s.change(t, "lb", func(svc *corev1.Service) { svc.Spec.Ports = svc.Spec.Ports[:1] })
	s.served(t, "lb")
}

// renamedPorts: a port is its protocol and number. Connections live on.
func renamedPorts(t *testing.T, s space) {
	s.service(t, "lb", func(svc *corev1.Service) {
		svc.Spec.Ports = append(svc.Spec.Ports, port("second", corev1.ProtocolTCP, 8081))
	})
	pod := serve(t, "pod")
	s.publish(t, "lb", pod, ready())
	address := s.served(t, "lb")
	answers(t, endpoint(address, 8081), "pod")
	answers(t, endpoint(address, 8080), "pod")
	load := poke(t, endpoint(address, 8080))
	load.heard(t, 20)
	s.change(t, "lb", func(svc *corev1.Service) {
		svc.Spec.Ports[0], svc.Spec.Ports[1] = svc.Spec.Ports[1], svc.Spec.Ports[0]
	})
	s.await(t, "lb", "keeps its address", all2(current, at(address)))
	load.heard(t, 20)
	load.halt()
	if err := load.failed(); err != nil {
		t.Error(err)
	}
}

// addedPort: only that port is touched.
func addedPort(t *testing.T, s space) {
	s.service(t, "lb", nil)
	pod := serve(t, "pod")
	s.publish(t, "lb", pod, ready())
	address := s.served(t, "lb")
	answers(t, endpoint(address, 8080), "pod")
	load := poke(t, endpoint(address, 8080))
	load.heard(t, 20)
	s.change(t, "lb", func(svc *corev1.Service) {
		svc.Spec.Ports = append(svc.Spec.Ports, port("second", corev1.ProtocolTCP, 8081))
	})
	s.publish(t, "lb", pod, ready())
	answers(t, endpoint(address, 8081), "pod")
	s.change(t, "lb", func(svc *corev1.Service) { svc.Spec.Ports = svc.Spec.Ports[:1] })
	silent(t, endpoint(address, 8081), "")
	load.heard(t, 20)
	load.halt()
	if err := load.failed(); err != nil {
		t.Error(err)
	}
}
