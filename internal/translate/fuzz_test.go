package translate

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/internal/model"
)

func addrsOf(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

// bytesOf hands out a fuzzer's bytes one by one, then zeros.
type bytesOf struct{ left []byte }

func (b *bytesOf) next() int {
	if len(b.left) == 0 {
		return 0
	}
	x := b.left[0]
	b.left = b.left[1:]
	return int(x)
}

func choose[T any](b *bytesOf, from ...T) T { return from[b.next()%len(from)] }

func maybe[T any](b *bytesOf, v T) *T {
	if b.next()%3 == 0 {
		return nil
	}
	return &v
}

func (b *bytesOf) protocol() corev1.Protocol {
	return choose(b, "", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP, "x")
}

func (b *bytesOf) number() int32 { return choose[int32](b, 0, 1, 80, 443, 65535, 65536, -1, 30080) }

func (b *bytesOf) name() string { return choose(b, "", "http", "dns", "ü") }

func (b *bytesOf) address() string {
	return choose(b, "", "10.0.0.1", "10.0.0.2", "fd00::1", "::ffff:10.0.0.1", "x", "fe80::1%eth0")
}

func (b *bytesOf) service(key, value string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{
		key: value, "fairlead.dev/target-type": choose(b, "", "pod", "node", "x"), "fairlead.dev/node-selector": choose(b, "", "a=b", ",=,", "a"),
	}}}
	spec := &svc.Spec
	spec.Type = choose(b, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName)
	spec.IPFamilies = choose(b, nil, []corev1.IPFamily{"IPv4"}, []corev1.IPFamily{"IPv6", "IPv4"}, []corev1.IPFamily{"", "IPv4", "IPv4"})
	spec.IPFamilyPolicy = maybe(b, corev1.IPFamilyPolicyRequireDualStack)
	spec.ExternalTrafficPolicy = choose(b, "", corev1.ServiceExternalTrafficPolicyLocal)
	spec.SessionAffinity = choose(b, "", corev1.ServiceAffinityClientIP)
	spec.SessionAffinityConfig = maybe(b, corev1.SessionAffinityConfig{ClientIP: maybe(b, corev1.ClientIPConfig{TimeoutSeconds: maybe(b, b.number())})})
	spec.LoadBalancerIP = b.address()
	spec.LoadBalancerSourceRanges = choose(b, nil, []string{"0.0.0.0/0", "::/0"}, []string{"x"}, []string{"10.0.0.1/8", "10.0.0.0/8"})
	for range b.next() % 5 {
		spec.Ports = append(spec.Ports, corev1.ServicePort{Name: b.name(), Protocol: b.protocol(), Port: b.number(), NodePort: b.number()})
	}
	return svc
}

func (b *bytesOf) slices() []discoveryv1.EndpointSlice {
	var list []discoveryv1.EndpointSlice
	for range b.next() % 4 {
		s := discoveryv1.EndpointSlice{AddressType: choose(b, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN, "")}
		for range b.next() % 3 {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: maybe(b, b.name()), Protocol: maybe(b, b.protocol()), Port: maybe(b, b.number())})
		}
		for range b.next() % 5 {
			e := discoveryv1.Endpoint{NodeName: maybe(b, choose(b, "", "one", "two"))}
			e.Conditions = discoveryv1.EndpointConditions{Ready: maybe(b, b.next()%2 == 0), Serving: maybe(b, b.next()%2 == 0)}
			for range b.next() % 3 {
				e.Addresses = append(e.Addresses, b.address())
			}
			s.Endpoints = append(s.Endpoints, e)
		}
		list = append(list, s)
	}
	return list
}

func (b *bytesOf) nodes() []corev1.Node {
	var list []corev1.Node
	for i := range b.next() % 4 {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: choose(b, "one", "two", fmt.Sprint(i)), Labels: choose(b, nil, map[string]string{"a": "b"}, map[string]string{corev1.LabelNodeExcludeBalancers: b.name()})}}
		for range b.next() % 3 {
			n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: choose(b, corev1.NodeInternalIP, corev1.NodeExternalIP), Address: b.address()})
		}
		list = append(list, n)
	}
	return list
}

// FuzzService: whatever stands in a Service, its slices and the nodes, a
// normalized balancer comes out, with each port served or refused and the same
// at every try.
func FuzzService(f *testing.F) {
	f.Add([]byte{}, "fairlead.dev/address", "10.0.0.1")
	f.Add([]byte{1, 1, 1, 0, 2, 0, 1, 1, 1, 1, 1, 1, 0, 0, 2, 1, 1, 2, 2, 2, 2, 3, 3}, "fairlead.dev/proxy-protocol", "http=v2")
	f.Add([]byte{2, 0, 0, 2, 1, 1, 1, 2, 2, 2, 3, 3, 4, 1, 1, 2, 2, 1, 1, 2, 2, 3, 0, 2, 1, 1, 2, 2, 1, 1, 2, 2, 2, 2, 2}, "metallb.io/allow-shared-ip", "")
	f.Fuzz(func(t *testing.T, data []byte, key, value string) {
		b := &bytesOf{data}
		src := Source{
			Service: b.service(key, value), Slices: b.slices(), Nodes: b.nodes(), Provider: "local",
			Protocols: []model.Protocol{model.TCP, model.UDP}, New: b.next()%2 == 0,
		}
		r := Service(src)
		if !reflect.DeepEqual(r, Service(src)) {
			t.Error("two translations differ")
		}
		if text := r.Balancer.Text(); text != r.Balancer.Normalize().Text() {
			t.Errorf("not normalized:\n%s", text)
		}
		checkPorts(t, r)
		if Fingerprint(src.Service) == "" {
			t.Error("no fingerprint")
		}
		ClaimOf(src.Service, Scope{Providers: []string{"local"}, Default: "local", Selected: true})
	})
}

// checkPorts: each port once, either served or refused.
func checkPorts(t *testing.T, r Result) {
	t.Helper()
	count := map[model.Port]int{}
	for _, l := range r.Balancer.Listeners {
		count[l.Port]++
		for _, m := range l.Pool.Members {
			if !m.Address.IsValid() || m.Weight < 0 || m.Weight > maxWeight {
				t.Errorf("member %+v of %s", m, l.Port)
			}
		}
	}
	for _, e := range r.PortErrors {
		count[e.Port]++
	}
	for i, p := range r.Ports {
		if count[p] != 1 {
			t.Errorf("port %s is served or refused %d times", p, count[p])
		}
		if i > 0 && r.Ports[i-1].Compare(p) >= 0 {
			t.Errorf("ports %v are not sorted", r.Ports)
		}
	}
	if len(count) != len(r.Ports) {
		t.Errorf("ports %v, but %v are served or refused", r.Ports, count)
	}
}
