//go:build linux

package demo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// errNoAddress says what the machine lacks, and how it is mended.
var errNoAddress = errors.New("this machine has no IPv4 address but loopback ones, which Kubernetes refuses for pods; " +
	"connect it to a network, or give it one that leads nowhere: sudo ip address add 10.99.0.1/32 dev lo")

// machineAddress chooses where the servers that play pods listen: the first
// private IPv4 address of the machine, else its first other one.
func machineAddress() (netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("listing the machine's addresses: %w", err)
	}
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = a.String()
	}
	return chooseAddress(texts)
}

// chooseAddress chooses among addresses that are written with their prefix length.
func chooseAddress(texts []string) (netip.Addr, error) {
	var fit []netip.Addr
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		// Endpoints may be neither loopback nor link-local (discovery/v1 validation).
		if a := p.Addr().Unmap(); err == nil && a.Is4() && !a.IsLoopback() && a.IsGlobalUnicast() {
			fit = append(fit, a)
		}
	}
	if len(fit) == 0 {
		return netip.Addr{}, errNoAddress
	}
	return fit[max(0, slices.IndexFunc(fit, netip.Addr.IsPrivate))], nil
}

// podManifest are the node and the pods that the backends play, as a scheduler
// would have left them. The node says no address, since there are no node ports
// behind it.
func podManifest(backends []*backend) string {
	parts := []string{"apiVersion: v1\nkind: Node\nmetadata: {name: this-machine}\n"}
	for _, b := range backends {
		parts = append(parts, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: hello}}
spec:
  nodeName: this-machine
  hostNetwork: true
  containers:
  - name: hello
    image: fairlead-demo
    ports:
    - {name: http, containerPort: %d}
    - {name: http-proxy, containerPort: %d}
`, b.name, b.plain.Port(), b.proxied.Port()))
	}
	return strings.Join(parts, "---\n")
}

// podStatus is what a kubelet says of a pod that is ready (core/v1 PodStatus).
func podStatus(b *backend) string {
	return fmt.Sprintf(`{"status":{"phase":"Running","podIP":"%[1]s","podIPs":[{"ip":"%[1]s"}],`+
		`"conditions":[{"type":"Ready","status":"True"},{"type":"ContainersReady","status":"True"}],`+
		`"containerStatuses":[{"name":"hello","image":"fairlead-demo","imageID":"","ready":true,"restartCount":0,"state":{"running":{}}}]}}`,
		b.plain.Addr())
}
