package translate

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// The taint and the label that keep a node out of load balancers (KEP-3458).
const (
	deletionTaint = "ToBeDeletedByClusterAutoscaler"
)

// The largest weight of a member (Octavia API v2, member.weight).
const maxWeight = 256

// podMembers are the endpoints of one Service port. Ready endpoints share the
// traffic. One that is terminating but still serving drains beside them, and
// carries the traffic only while nobody is ready (KEP-1669).
func podMembers(svc *corev1.Service, port corev1.ServicePort, slicesIn []discoveryv1.EndpointSlice) []model.Member {
	endpoints := collect(svc, port, slicesIn)
	anyReady := slices.ContainsFunc(endpoints, func(e endpoint) bool { return e.ready })
	members := make([]model.Member, 0, len(endpoints))
	for _, e := range endpoints {
		weight := 1
		if anyReady && !e.ready {
			weight = 0
		}
		members = append(members, model.Member{Address: e.address, Name: e.name, Weight: weight})
	}
	return members
}

// endpoint is one serving address of a Service port.
type endpoint struct {
	address netip.AddrPort
	name    string
	node    string
	ready   bool
}

// collect returns the serving endpoints of a port, of the Service's first
// family that has any: a dual-stack pod stands in the slices of both families
// and is still one place to send traffic to.
func collect(svc *corev1.Service, port corev1.ServicePort, slicesIn []discoveryv1.EndpointSlice) []endpoint {
	for _, family := range svc.Spec.IPFamilies {
		if found := collectFamily(family, port, slicesIn); len(found) > 0 {
			return found
		}
	}
	return nil
}

// collectFamily returns the endpoints of one family, each address once: while
// slices are rearranged an endpoint may stand in two of them (discovery/v1,
// EndpointSlice), and one that is ready in either is ready.
func collectFamily(family corev1.IPFamily, port corev1.ServicePort, slicesIn []discoveryv1.EndpointSlice) []endpoint {
	var out []endpoint
	at := map[netip.AddrPort]int{}
	for i := range slicesIn {
		s := &slicesIn[i]
		if string(s.AddressType) != string(family) {
			continue
		}
		number, ok := slicePort(s, port)
		if !ok {
			continue
		}
		for j := range s.Endpoints {
			e, ok := endpointOf(&s.Endpoints[j], number)
			if !ok {
				continue
			}
			if first, twice := at[e.address]; twice {
				out[first] = either(out[first], e)
				continue
			}
			at[e.address] = len(out)
			out = append(out, e)
		}
	}
	return out
}

// slicePort finds the number a Service port has in a slice: slices name ports
// as the Service does, and hold the resolved target port.
func slicePort(s *discoveryv1.EndpointSlice, port corev1.ServicePort) (uint16, bool) {
	for _, p := range s.Ports {
		if p.Port == nil || deref(p.Name) != port.Name || *p.Port <= 0 || *p.Port > 65535 {
			continue
		}
		if p.Protocol != nil && *p.Protocol != protocolOf(port) {
			continue
		}
		return uint16(*p.Port), true
	}
	return 0, false
}

// either joins two entries of one address: the ready one stands.
func either(a, b endpoint) endpoint {
	if b.ready && !a.ready {
		return b
	}
	return a
}

// endpointOf returns an endpoint that serves, at its first address: consumers
// use no other (discovery/v1 Endpoint.addresses).
func endpointOf(e *discoveryv1.Endpoint, port uint16) (endpoint, bool) {
	ready := e.Conditions.Ready == nil || *e.Conditions.Ready
	serving := ready
	if e.Conditions.Serving != nil {
		serving = *e.Conditions.Serving || ready
	}
	if !serving || len(e.Addresses) == 0 {
		return endpoint{}, false
	}
	a, err := netip.ParseAddr(e.Addresses[0])
	if err != nil {
		return endpoint{}, false
	}
	return endpoint{
		address: netip.AddrPortFrom(a.Unmap(), port),
		name:    targetName(e),
		node:    deref(e.NodeName),
		ready:   ready,
	}, true
}

func targetName(e *discoveryv1.Endpoint) string {
	if e.TargetRef != nil {
		return e.TargetRef.Name
	}
	return deref(e.NodeName)
}

// nodeMembers are eligible nodes behind a port, reached at its node port. Under
// externalTrafficPolicy Local a node's weight is the number of its ready
// endpoints; a node that is about to go drains.
func nodeMembers(svc *corev1.Service, port corev1.ServicePort, nodes []corev1.Node, slicesIn []discoveryv1.EndpointSlice) []model.Member {
	local := svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	counts := map[string]int{}
	if local {
		counts = readyByNode(collect(svc, port, slicesIn))
	}
	var members []model.Member
	for i := range nodes {
		node := &nodes[i]
		address, _ := nodeAddress(node, svc.Spec.IPFamilies)
		weight := 1
		if local {
			count, has := counts[node.Name]
			if !has {
				continue
			}
			weight = min(count, maxWeight)
		}
		if leaving(node) {
			weight = 0
		}
		members = append(members, model.Member{
			Address: netip.AddrPortFrom(address, uint16(port.NodePort)),
			Name:    node.Name,
			Weight:  weight,
		})
	}
	return members
}

// eligible are the nodes that may be members at all: those with an address of
// the Service's families, without the exclude label, that the option
// node-selector takes.
func eligible(svc *corev1.Service, nodes []corev1.Node, v annotation.Values) []corev1.Node {
	text, _ := v.Text(annotation.NodeSelector)
	var out []corev1.Node
	for i := range nodes {
		_, ok := nodeAddress(&nodes[i], svc.Spec.IPFamilies)
		if ok && !excluded(&nodes[i]) && selects(text, nodes[i].Labels) {
			out = append(out, nodes[i])
		}
	}
	return out
}

// selects reads a comma-separated list of "key=value" and "key", all of which
// must hold.
func selects(selector string, labels map[string]string) bool {
	for term := range strings.SplitSeq(selector, ",") {
		if term = strings.TrimSpace(term); term == "" {
			continue
		}
		key, want, exact := strings.Cut(term, "=")
		have, ok := labels[strings.TrimSpace(key)]
		if !ok || (exact && have != strings.TrimSpace(want)) {
			return false
		}
	}
	return true
}

// readyByNode counts ready endpoints by node. A node with only terminating
// ones is present with zero, so that it drains; when no node has a ready one,
// those that still serve carry the traffic.
func readyByNode(endpoints []endpoint) map[string]int {
	anyReady := slices.ContainsFunc(endpoints, func(e endpoint) bool { return e.ready })
	counts := map[string]int{}
	for _, e := range endpoints {
		if e.node == "" {
			continue
		}
		if e.ready || !anyReady {
			counts[e.node]++
		} else {
			counts[e.node] += 0
		}
	}
	return counts
}

// nodeAddress is the node's first InternalIP of the Service's families in
// their order: the address kube-proxy calls primary and serves node ports on.
func nodeAddress(node *corev1.Node, families []corev1.IPFamily) (netip.Addr, bool) {
	for _, family := range families {
		for _, a := range node.Status.Addresses {
			if a.Type != corev1.NodeInternalIP {
				continue
			}
			ip, err := netip.ParseAddr(a.Address)
			if err == nil && string(model.FamilyOf(ip)) == string(family) {
				return ip.Unmap(), true
			}
		}
	}
	return netip.Addr{}, false
}

// excluded reads the exclude label as upstream does: present means excluded,
// unless its value is a boolean that says no.
func excluded(node *corev1.Node) bool {
	value, ok := node.Labels[corev1.LabelNodeExcludeBalancers]
	if !ok {
		return false
	}
	yes, err := strconv.ParseBool(value)
	return err != nil || yes
}

func leaving(node *corev1.Node) bool {
	return node.DeletionTimestamp != nil ||
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == deletionTaint })
}

func protocolOf(port corev1.ServicePort) corev1.Protocol {
	if port.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return port.Protocol
}

func portOf(port corev1.ServicePort) model.Port {
	return model.Port{Protocol: model.Protocol(protocolOf(port)), Number: uint16(port.Port)}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// noNodePort is the error of a port that nodes cannot be reached at.
func noNodePort(port corev1.ServicePort) model.PortError {
	return model.PortError{
		Port:    portOf(port),
		Reason:  "NoNodePort",
		Message: fmt.Sprintf("port %d has no node port, and traffic is sent to nodes; set spec.allocateLoadBalancerNodePorts to true, or fairlead.dev/target-type to pod", port.Port),
	}
}
