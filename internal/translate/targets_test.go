package translate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// TestAutoTarget proves where traffic goes when no option says it.
func TestAutoTarget(t *testing.T) {
	node := func(addresses ...corev1.NodeAddress) corev1.Node {
		return corev1.Node{Status: corev1.NodeStatus{Addresses: addresses}}
	}
	cases := map[string]struct {
		reason string
		nodes  []corev1.Node
		want   string
	}{
		"NoNodes":   {reason: "where there are no nodes, only pods can be reached", want: "10.0.0.7:8443"},
		"Unheard":   {reason: "a node that never said an address takes no traffic", nodes: []corev1.Node{node()}, want: "10.0.0.7:8443"},
		"Addressed": {reason: "a cluster with nodes is entered by them", nodes: []corev1.Node{node(), node(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.1.0.1"})}, want: "10.1.0.1:30080"},
		"OtherFamily": {
			reason: "an address of a family that the Service has not leads nowhere",
			nodes:  []corev1.Node{node(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "2001:db8::1"})}, want: "10.0.0.7:8443",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			number := int32(8443)
			r := Service(Source{
				Service: &corev1.Service{Spec: corev1.ServiceSpec{
					IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
					Ports:      []corev1.ServicePort{{Port: 443, NodePort: 30080}},
				}},
				Slices: []discoveryv1.EndpointSlice{{
					AddressType: discoveryv1.AddressTypeIPv4,
					Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.7"}}},
					Ports:       []discoveryv1.EndpointPort{{Port: &number}},
				}},
				Nodes: tc.nodes, Provider: "local", Protocols: []model.Protocol{model.TCP},
			})
			if len(r.Balancer.Listeners) != 1 || len(r.Balancer.Listeners[0].Pool.Members) != 1 {
				t.Fatalf("translated to %+v", r.Balancer)
			}
			if got := r.Balancer.Listeners[0].Pool.Members[0].Address.String(); got != tc.want {
				t.Errorf("traffic goes to %s, want %s: %s", got, tc.want, tc.reason)
			}
		})
	}
}
