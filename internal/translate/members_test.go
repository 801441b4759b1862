package translate

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// service returns a load balancer Service with one TCP port "http".
func service(edits ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1", Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}
	for _, e := range edits {
		e(svc)
	}
	return svc
}

func with(option, value string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Annotations["fairlead.dev/"+option] = value }
}

func families(list ...corev1.IPFamily) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.IPFamilies = list }
}

func local(svc *corev1.Service) {
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// The states of an endpoint (discovery/v1 EndpointConditions).
type state struct{ ready, serving *bool }

func up() state       { return state{new(true), new(true)} }
func draining() state { return state{new(false), new(true)} }
func gone() state     { return state{new(false), new(false)} }

func endpointAt(address, node string, s state) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses:  []string{address},
		Conditions: discoveryv1.EndpointConditions{Ready: s.ready, Serving: s.serving},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: "pod-" + address},
	}
	if node != "" {
		e.NodeName = &node
	}
	return e
}

// slice returns an IPv4 slice with port "http" at 8080.
func slice(endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
	return discoveryv1.EndpointSlice{
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}},
	}
}

func slice6(endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
	s := slice(endpoints...)
	s.AddressType = discoveryv1.AddressTypeIPv6
	return s
}

func slicePorts(ports ...discoveryv1.EndpointPort) discoveryv1.EndpointSlice {
	s := slice(endpointAt("10.0.0.1", "one", up()))
	s.Ports = ports
	return s
}

func at(address string, weight int) model.Member {
	return model.Member{Address: netip.MustParseAddrPort(address), Weight: weight}
}

func ignoreNames() cmp.Option { return cmpopts.IgnoreFields(model.Member{}, "Name") }

func compareAddrPorts() cmp.Option {
	return cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })
}

func translated(svc *corev1.Service, nodes []corev1.Node, list ...discoveryv1.EndpointSlice) Result {
	return Service(Source{
		Service: svc, Slices: list, Nodes: nodes, Provider: "local",
		Protocols: []model.Protocol{model.TCP, model.UDP}, New: true,
	})
}

func TestPodMembers(t *testing.T) {
	tcpPort := func(name string, number int32) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Protocol: new(corev1.ProtocolTCP), Port: &number}
	}
	cases := map[string]struct {
		reason string
		svc    *corev1.Service
		slices []discoveryv1.EndpointSlice
		want   []model.Member
	}{
		"Ready": {
			reason: "ready pods share the traffic, in the order of their addresses",
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.2", "", up()), endpointAt("10.0.0.1", "", up()))},
			want:   []model.Member{at("10.0.0.1:8080", 1), at("10.0.0.2:8080", 1)},
		},
		"NoConditions": {
			reason: "unknown conditions mean ready (discovery/v1)",
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "", state{}))},
			want:   []model.Member{at("10.0.0.1:8080", 1)},
		},
		"ServingUnknown": {
			reason: "serving defaults to ready",
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "", state{ready: new(false)}), endpointAt("10.0.0.2", "", state{ready: new(true)}))},
			want:   []model.Member{at("10.0.0.2:8080", 1)},
		},
		"Draining": {
			reason: "what is terminating and serves drains beside the ready (KEP-1669)",
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "", up()), endpointAt("10.0.0.2", "", draining()), endpointAt("10.0.0.3", "", gone()))},
			want:   []model.Member{at("10.0.0.1:8080", 1), at("10.0.0.2:8080", 0)},
		},
		"OnlyDraining": {
			reason: "while nobody is ready, those that still serve carry the traffic (KEP-1669)",
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.2", "", draining()), endpointAt("10.0.0.3", "", gone()))},
			want:   []model.Member{at("10.0.0.2:8080", 1)},
		},
		"ReadyElsewhere": {
			reason: "a ready pod in one slice makes those of another drain",
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.2", "", draining())), slice(endpointAt("10.0.0.1", "", up()))},
			want:   []model.Member{at("10.0.0.1:8080", 1), at("10.0.0.2:8080", 0)},
		},
		"Twice": {
			reason: "an endpoint in two slices is one member, and ready when either says so",
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "", draining()), endpointAt("10.0.0.2", "", up())), slice(endpointAt("10.0.0.1", "", up()), endpointAt("10.0.0.2", "", draining()))},
			want:   []model.Member{at("10.0.0.1:8080", 1), at("10.0.0.2:8080", 1)},
		},
		"FirstFamily": {
			reason: "a dual-stack pod is one place to send traffic to",
			svc:    service(families(corev1.IPv6Protocol, corev1.IPv4Protocol)),
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "", up())), slice6(endpointAt("fd00::1", "", up()))},
			want:   []model.Member{at("[fd00::1]:8080", 1)},
		},
		"OtherFamily": {
			reason: "the second family serves where the first has nobody",
			svc:    service(families(corev1.IPv6Protocol, corev1.IPv4Protocol)),
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "", up())), slice6(endpointAt("fd00::1", "", gone()))},
			want:   []model.Member{at("10.0.0.1:8080", 1)},
		},
		"NotMyFamily": {
			reason: "slices of a family that the Service has not are left alone",
			slices: []discoveryv1.EndpointSlice{slice6(endpointAt("fd00::1", "", up()))},
		},
		"NoFamilies": {
			reason: "a Service without families has no members, and harms nobody",
			svc:    service(families()),
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "", up()))},
		},
		"OtherName": {
			reason: "ports are found by name",
			slices: []discoveryv1.EndpointSlice{slicePorts(tcpPort("other", 1), tcpPort("http", 2))},
			want:   []model.Member{at("10.0.0.1:2", 1)},
		},
		"OtherProtocol": {
			reason: "and by protocol",
			slices: []discoveryv1.EndpointSlice{slicePorts(discoveryv1.EndpointPort{Name: new("http"), Protocol: new(corev1.ProtocolUDP), Port: new(int32(1))}, tcpPort("http", 2))},
			want:   []model.Member{at("10.0.0.1:2", 1)},
		},
		"NoName": {
			reason: "a Service's only port may have no name",
			svc:    service(func(svc *corev1.Service) { svc.Spec.Ports[0].Name = "" }),
			slices: []discoveryv1.EndpointSlice{slicePorts(discoveryv1.EndpointPort{Port: new(int32(9))})},
			want:   []model.Member{at("10.0.0.1:9", 1)},
		},
		"BadPorts": {
			reason: "no number, or one that is none",
			slices: []discoveryv1.EndpointSlice{slicePorts(discoveryv1.EndpointPort{Name: new("http")}), slicePorts(tcpPort("http", 0)), slicePorts(tcpPort("http", 70000))},
		},
		"PortBySlice": {
			reason: "pods of two versions may have the target port at two numbers",
			slices: []discoveryv1.EndpointSlice{slicePorts(tcpPort("http", 1)), slicePorts(tcpPort("http", 2))},
			want:   []model.Member{at("10.0.0.1:1", 1), at("10.0.0.1:2", 1)},
		},
		"BadAddress": {
			reason: "what is no address is passed over, and only the first counts",
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("web.example.org", "", up()), discoveryv1.Endpoint{}, discoveryv1.Endpoint{Addresses: []string{"10.0.0.1", "10.0.0.2"}})},
			want:   []model.Member{at("10.0.0.1:8080", 1)},
		},
		"LocalPolicy": {
			reason: "pods are reached directly, whatever the traffic policy says about nodes",
			svc:    service(local),
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "one", up()))},
			want:   []model.Member{at("10.0.0.1:8080", 1)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			svc := tc.svc
			if svc == nil {
				svc = service()
			}
			got := translated(svc, nil, tc.slices...).Balancer.Listeners[0].Pool.Members
			if diff := cmp.Diff(tc.want, got, ignoreNames(), compareAddrPorts(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func nodeAt(name string, addresses ...string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, a := range addresses {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func edited(n corev1.Node, edit func(*corev1.Node)) corev1.Node {
	edit(&n)
	return n
}

func labelled(n corev1.Node, key, value string) corev1.Node {
	return edited(n, func(n *corev1.Node) { n.Labels[key] = value })
}

func TestNodeMembers(t *testing.T) {
	one, two := nodeAt("one", "192.0.2.1"), nodeAt("two", "192.0.2.2")
	exclude := corev1.LabelNodeExcludeBalancers
	leavingNode := edited(two, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}} })
	deleted := edited(two, func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.NewTime(time.Unix(1, 0))) })
	cases := map[string]struct {
		reason  string
		svc     *corev1.Service
		nodes   []corev1.Node
		slices  []discoveryv1.EndpointSlice
		want    []model.Member
		noNodes bool
	}{
		"All": {
			reason: "every node serves the node port under policy Cluster, with or without pods",
			nodes:  []corev1.Node{two, one},
			want:   []model.Member{at("192.0.2.1:30080", 1), at("192.0.2.2:30080", 1)},
		},
		"Excluded": {
			reason: "the label's presence excludes",
			nodes:  []corev1.Node{one, labelled(nodeAt("two", "192.0.2.2"), exclude, "")},
			want:   []model.Member{at("192.0.2.1:30080", 1)},
		},
		"ExcludedFalse": {
			reason: "unless its value is a boolean that says no",
			nodes:  []corev1.Node{labelled(nodeAt("one", "192.0.2.1"), exclude, "false"), labelled(nodeAt("two", "192.0.2.2"), exclude, "yes")},
			want:   []model.Member{at("192.0.2.1:30080", 1)},
		},
		"AllExcluded": {
			reason:  "nobody left is told apart from a wish",
			nodes:   []corev1.Node{labelled(nodeAt("one", "192.0.2.1"), exclude, "true")},
			noNodes: true,
		},
		"Leaving": {
			reason: "a node that the autoscaler is about to delete drains (KEP-3458)",
			nodes:  []corev1.Node{one, leavingNode},
			want:   []model.Member{at("192.0.2.1:30080", 1), at("192.0.2.2:30080", 0)},
		},
		"Deleted": {
			reason: "so does one that is being deleted",
			nodes:  []corev1.Node{one, deleted},
			want:   []model.Member{at("192.0.2.1:30080", 1), at("192.0.2.2:30080", 0)},
		},
		"FamilyOfService": {
			reason: "the first InternalIP of the Service's first family that the node has",
			svc:    service(with("target-type", "node"), families(corev1.IPv6Protocol, corev1.IPv4Protocol)),
			nodes:  []corev1.Node{nodeAt("one", "192.0.2.1", "2001:db8::1", "2001:db8::ffff"), two},
			want:   []model.Member{at("192.0.2.2:30080", 1), at("[2001:db8::1]:30080", 1)},
		},
		"NoAddress": {
			reason: "a node without an InternalIP of the family is passed over",
			nodes: []corev1.Node{one, nodeAt("two", "2001:db8::1"), nodeAt("three", "x"), edited(nodeAt("four"), func(n *corev1.Node) {
				n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "192.0.2.9"}}
			})},
			want: []model.Member{at("192.0.2.1:30080", 1)},
		},
		"Selector": {
			reason: "all terms of node-selector must hold",
			svc:    service(with("target-type", "node"), with("node-selector", "role=edge, zone")),
			nodes:  []corev1.Node{labelled(labelled(nodeAt("one", "192.0.2.1"), "role", "edge"), "zone", "a"), labelled(nodeAt("two", "192.0.2.2"), "role", "edge"), labelled(labelled(nodeAt("three", "192.0.2.3"), "role", "core"), "zone", "a")},
			want:   []model.Member{at("192.0.2.1:30080", 1)},
		},
		"LocalWeights": {
			reason: "under policy Local a node's weight is the number of its ready endpoints",
			svc:    service(with("target-type", "node"), local),
			nodes:  []corev1.Node{one, two, nodeAt("three", "192.0.2.3")},
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "one", up()), endpointAt("10.0.0.2", "two", up())), slice(endpointAt("10.0.0.3", "two", up()), endpointAt("10.0.0.4", "two", gone()))},
			want:   []model.Member{at("192.0.2.1:30080", 1), at("192.0.2.2:30080", 2)},
		},
		"LocalTwice": {
			reason: "an endpoint in two slices counts once",
			svc:    service(with("target-type", "node"), local),
			nodes:  []corev1.Node{one, two},
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "one", up())), slice(endpointAt("10.0.0.1", "one", up()), endpointAt("10.0.0.2", "two", up()))},
			want:   []model.Member{at("192.0.2.1:30080", 1), at("192.0.2.2:30080", 1)},
		},
		"LocalDrains": {
			reason: "a node whose last ready endpoint is gone drains while others serve",
			svc:    service(with("target-type", "node"), local),
			nodes:  []corev1.Node{one, two},
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "one", up()), endpointAt("10.0.0.2", "two", draining()))},
			want:   []model.Member{at("192.0.2.1:30080", 1), at("192.0.2.2:30080", 0)},
		},
		"LocalOnlyDraining": {
			reason: "and carries the traffic while nobody is ready anywhere",
			svc:    service(with("target-type", "node"), local),
			nodes:  []corev1.Node{one, two},
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "two", draining()), endpointAt("10.0.0.2", "two", draining()))},
			want:   []model.Member{at("192.0.2.2:30080", 2)},
		},
		"LocalLeaving": {
			reason: "a node that is about to go drains, however many endpoints it has",
			svc:    service(with("target-type", "node"), local),
			nodes:  []corev1.Node{one, leavingNode},
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "one", up()), endpointAt("10.0.0.2", "two", up()))},
			want:   []model.Member{at("192.0.2.1:30080", 1), at("192.0.2.2:30080", 0)},
		},
		"LocalNowhere": {
			reason: "endpoints without a node are behind none",
			svc:    service(with("target-type", "node"), local),
			nodes:  []corev1.Node{one},
			slices: []discoveryv1.EndpointSlice{slice(endpointAt("10.0.0.1", "", up()))},
		},
		"None": {
			reason:  "a cluster without nodes",
			noNodes: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			svc := tc.svc
			if svc == nil {
				svc = service(with("target-type", "node"))
			}
			r := translated(svc, tc.nodes, tc.slices...)
			if diff := cmp.Diff(tc.want, r.Balancer.Listeners[0].Pool.Members, ignoreNames(), compareAddrPorts(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
			if r.NoNodes != tc.noNodes {
				t.Errorf("%s: NoNodes %v, want %v", tc.reason, r.NoNodes, tc.noNodes)
			}
		})
	}
}

// TestWeightIsBounded: a node with more endpoints than the largest weight.
func TestWeightIsBounded(t *testing.T) {
	var many []discoveryv1.Endpoint
	for i := range 300 {
		many = append(many, endpointAt(netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i)}).String(), "one", up()))
	}
	r := translated(service(with("target-type", "node"), local), []corev1.Node{nodeAt("one", "192.0.2.1")}, slice(many...))
	if got := r.Balancer.Listeners[0].Pool.Members[0].Weight; got != maxWeight {
		t.Errorf("300 endpoints weigh %d, want %d", got, maxWeight)
	}
}

// TestTargets: pods or nodes, by option and by what the cluster has.
func TestTargets(t *testing.T) {
	node := []corev1.Node{nodeAt("one", "192.0.2.1")}
	cases := map[string]struct {
		reason, option string
		nodes          []corev1.Node
		want           string
	}{
		"AutoWithNodes":    {"nodes are how a cluster with nodes is reached", "", node, "192.0.2.1:30080"},
		"AutoWithoutNodes": {"a cluster without nodes has pods that can be reached", "", nil, "10.0.0.1:8080"},
		"Auto":             {"auto is the same as nothing", "auto", node, "192.0.2.1:30080"},
		"Pod":              {"as asked", "pod", node, "10.0.0.1:8080"},
		"Node":             {"as asked", "node", node, "192.0.2.1:30080"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			svc := service()
			if tc.option != "" {
				with("target-type", tc.option)(svc)
			}
			r := translated(svc, tc.nodes, slice(endpointAt("10.0.0.1", "one", up())))
			if got := r.Balancer.Listeners[0].Pool.Members[0].Address.String(); got != tc.want {
				t.Errorf("%s: traffic goes to %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}
