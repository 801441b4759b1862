//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/annotation"
)

// TestNodes is about node ports as the place to send traffic to. Here a node is
// a Node object and a socket: what kube-proxy would do is not what is tried. All
// Services of a cluster see its nodes, so the cases take turns.
func TestNodes(t *testing.T) {
	start(t, nil)
	for _, tc := range []struct {
		name string
		run  func(*testing.T, space)
	}{
		{"members_are_the_nodes", nodesServe},
		{"exclude_label", excludeLabel},
		{"D4_B4_autoscaler_taint_comes_and_goes", taintComesAndGoes},
		{"D6_node_address_changes", nodeMoves},
		{"ETP_Local_weights", localWeights},
		{"node_port_changes", nodePortChanges},
		{"no_node_ports", noNodePorts},
		{"last_node_goes", lastNodeGoes},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, newSpace(t)) })
	}
}

// nodeAddress is the n-th node's InternalIP: nobody minds a node on loopback.
func nodeAddress(n int) string { return ownAddress(240, n) }

// node creates a Node, which goes at the end of the test.
func (s space) node(t *testing.T, name, address string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := s.client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.dropNode(t, name) })
	s.placeNode(t, name, address)
}

func (s space) dropNode(t *testing.T, name string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := client.IgnoreNotFound(s.client.Delete(withoutEnd(t), node)); err != nil {
		t.Error(err)
	}
}

// placeNode gives a node its InternalIP.
func (s space) placeNode(t *testing.T, name, address string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":%q}]}}`, address)
	if err := s.client.Status().Patch(t.Context(), node, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

func (s space) patchNode(t *testing.T, name, patch string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := s.client.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

func withNodePorts(svc *corev1.Service) { svc.Spec.AllocateLoadBalancerNodePorts = nil }

// nodeService creates a Service with node ports and what answers at them on two
// nodes. It returns where the Service is served.
func (s space) nodeService(t *testing.T, edit func(*corev1.Service)) (to string, nodePort int32) {
	t.Helper()
	svc := s.service(t, "lb", all(withNodePorts, edit))
	nodePort = svc.Spec.Ports[0].NodePort
	for i, name := range []string{"node-1", "node-2"} {
		s.node(t, name, nodeAddress(i+1))
		nodeSocket(t, name, nodeAddress(i+1), nodePort)
	}
	return endpoint(s.served(t, "lb"), 8080), nodePort
}

// nodeSocket answers at a node port as the node.
func nodeSocket(t *testing.T, name, address string, nodePort int32) *backend {
	t.Helper()
	return serveAt(t, name, netip.AddrPortFrom(netip.MustParseAddr(address), uint16(nodePort)))
}

func same(*corev1.Service) {}

// byNodes waits until exactly these nodes answer.
func byNodes(t *testing.T, to string, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%v answer", want), func() error {
		seen := map[string]bool{}
		for range 10 {
			name, _, err := ask(to, "")
			if err != nil {
				return err
			}
			seen[name] = true
		}
		for _, name := range want {
			if !seen[name] {
				return fmt.Errorf("%v answer", seen)
			}
		}
		if len(seen) != len(want) {
			return fmt.Errorf("%v answer", seen)
		}
		return nil
	})
}

func nodesServe(t *testing.T, s space) {
	to, _ := s.nodeService(t, same)
	byNodes(t, to, "node-1", "node-2")
	s.dropNode(t, "node-2")
	byNodes(t, to, "node-1")
}

// excludeLabel: present excludes, unless it says no (upstream's reading).
func excludeLabel(t *testing.T, s space) {
	to, _ := s.nodeService(t, same)
	byNodes(t, to, "node-1", "node-2")
	for _, value := range []string{`"true"`, `"karpenter"`, `""`} {
		s.patchNode(t, "node-2", `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":`+value+`}}}`)
		byNodes(t, to, "node-1")
		s.patchNode(t, "node-2", `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":"false"}}}`)
		byNodes(t, to, "node-1", "node-2")
	}
}

// taintComesAndGoes: upstream's controller never takes the node back.
func taintComesAndGoes(t *testing.T, s space) {
	to, _ := s.nodeService(t, same)
	byNodes(t, to, "node-1", "node-2")
	long, err := dialNode(to, "node-2")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = long.Close() }()
	s.patchNode(t, "node-2", `{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}]}}`)
	byNodes(t, to, "node-1")
	if err := echoes(long); err != nil {
		t.Errorf("the taint cut an established connection: %v", err)
	}
	s.patchNode(t, "node-2", `{"spec":{"taints":null}}`)
	byNodes(t, to, "node-1", "node-2")
	// Cordon is no reason (kubernetes/kubernetes#65013).
	s.patchNode(t, "node-2", `{"spec":{"unschedulable":true}}`)
	s.change(t, "lb", asking("connection-limit", "1000"))
	s.served(t, "lb")
	byNodes(t, to, "node-1", "node-2")
}

// nodeMoves: upstream's controller does not look at addresses.
func nodeMoves(t *testing.T, s space) {
	to, nodePort := s.nodeService(t, same)
	byNodes(t, to, "node-1", "node-2")
	nodeSocket(t, "node-2-moved", nodeAddress(3), nodePort)
	s.placeNode(t, "node-2", nodeAddress(3))
	byNodes(t, to, "node-1", "node-2-moved")
}

// localWeights: one pod here and nine there get a tenth and nine tenths; a node
// without pods gets nothing.
func localWeights(t *testing.T, s space) {
	to, _ := s.nodeService(t, withPolicy(corev1.ServiceExternalTrafficPolicyLocal))
	s.node(t, "node-3", nodeAddress(3))
	var pods []*backend
	for i := range 10 {
		pod := serve(t, fmt.Sprintf("pod-%d", i))
		node := "node-1"
		if i > 0 {
			node = "node-2"
		}
		s.publishOn(t, "lb", pod, ready(), node)
		pods = append(pods, pod)
	}
	eventually(t, "a tenth and nine tenths", func() error {
		seen := map[string]int{}
		for range 100 {
			name, _, err := ask(to, "")
			if err != nil {
				return err
			}
			seen[name]++
		}
		if one := seen["node-1"]; one < 8 || one > 12 || one+seen["node-2"] != 100 {
			return fmt.Errorf("%v answer", seen)
		}
		return nil
	})
	// The only pod of node-1 terminates: nothing new goes there.
	s.publishOn(t, "lb", pods[0], terminating(), "node-1")
	byNodes(t, to, "node-2")
}

func nodePortChanges(t *testing.T, s space) {
	to, before := s.nodeService(t, same)
	byNodes(t, to, "node-1", "node-2")
	after := s.changeNodePort(t, "lb")
	if after == before {
		t.Fatal("the node port is the same")
	}
	nodeSocket(t, "new-1", nodeAddress(1), after)
	nodeSocket(t, "new-2", nodeAddress(2), after)
	byNodes(t, to, "new-1", "new-2")
}

// changeNodePort gives a Service the next node port that is free.
func (s space) changeNodePort(t *testing.T, name string) int32 {
	t.Helper()
	var after int32
	eventually(t, "another node port is free", func() error {
		svc, err := s.get(t.Context(), name)
		if err != nil {
			return err
		}
		after = max(after, svc.Spec.Ports[0].NodePort) + 1
		if after > 32767 {
			after = 30000
		}
		svc.Spec.Ports[0].NodePort = after
		return s.client.Update(t.Context(), svc)
	})
	return after
}

// noNodePorts: who sends to nodes cannot serve a port without a node port, and
// says so.
func noNodePorts(t *testing.T, s space) {
	s.node(t, "node-1", nodeAddress(1))
	s.service(t, "lb", asking(annotation.TargetType, "node"))
	s.refused(t, "lb", "PortsFailed")
	s.await(t, "lb", "names the port", portStatuses("8080 TCP fairlead.dev/NoNodePort"))
	svc := s.change(t, "lb", func(svc *corev1.Service) { *svc.Spec.AllocateLoadBalancerNodePorts = true })
	nodeSocket(t, "node-1", nodeAddress(1), svc.Spec.Ports[0].NodePort)
	answers(t, endpoint(s.served(t, "lb"), 8080), "node-1")
}

// lastNodeGoes: an empty list of nodes is rather an accident than a wish.
func lastNodeGoes(t *testing.T, s space) {
	to, _ := s.nodeService(t, asking(annotation.TargetType, "node"))
	byNodes(t, to, "node-1", "node-2")
	s.dropNode(t, "node-1")
	byNodes(t, to, "node-2")
	s.dropNode(t, "node-2")
	s.change(t, "lb", asking("connection-limit", "1000"))
	s.served(t, "lb")
	byNodes(t, to, "node-2")
}

// dialNode connects until a certain node answers.
func dialNode(to, want string) (net.Conn, error) {
	var seen []string
	for range 50 {
		c, err := dial("tcp", to, "")
		if err != nil {
			return nil, err
		}
		buffer := make([]byte, 200)
		n, err := c.Read(buffer)
		if err == nil && contains(string(buffer[:n]), want+" ") {
			return c, nil
		}
		seen = append(seen, string(buffer[:n]))
		_ = c.Close()
	}
	return nil, fmt.Errorf("never %s answered, but %v", want, slices.Compact(seen))
}

// echoes tells whether an established connection still carries both ways.
func echoes(c net.Conn) error {
	if _, err := c.Write([]byte("still there\n")); err != nil {
		return err
	}
	buffer := make([]byte, 200)
	n, err := c.Read(buffer)
	if err == nil && string(buffer[:n]) != "still there\n" {
		err = errors.New("another text came back")
	}
	return err
}
