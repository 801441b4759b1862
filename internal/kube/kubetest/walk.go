package kubetest

import (
	"context"
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// Disturbance is something that happens to the controller itself.
type Disturbance string

// The disturbances.
const (
	// Restart: the controller starts afresh on the same objects.
	Restart Disturbance = "restart"
	// Kill: it ends in the middle of its next pass, and starts afresh.
	Kill Disturbance = "kill"
	// FailWrite: one of its next writes fails, without or with effect.
	FailWrite Disturbance = "fail a write"
	// FailBackend: the next change of the backend fails halfway.
	FailBackend Disturbance = "fail the backend"
	// Wait: time passes, longer than a reservation lasts.
	Wait Disturbance = "wait"
)

// World is what a walk walks through: this cluster in memory, or a real one.
type World interface {
	// Put creates or replaces a Service. It may be refused: classes are
	// immutable, and what is being deleted does not come back.
	Put(ctx context.Context, svc *corev1.Service) error
	// Delete deletes a Service; one that is gone is no error.
	Delete(ctx context.Context, key model.Key) error
	// SetEndpoints replaces a Service's EndpointSlices.
	SetEndpoints(ctx context.Context, key model.Key, list []discoveryv1.EndpointSlice) error
	// Disturb lets something happen to the controller.
	Disturb(ctx context.Context, d Disturbance) error
	// Work lets the controller take so many looks.
	Work(ctx context.Context, passes int) error
}

// Walk is a random sequence of what users and accidents do.
type Walk struct {
	Rand  *rand.Rand
	Steps int
	// Classes are the classes that Services get, "" is none.
	Classes []string
	// Addresses are what Services ask for by name at times.
	Addresses []string
	// Pausing lets Services be paused at times.
	Pausing bool
}

// Run takes the steps. What the world refuses of a user's wish is passed over.
func (w Walk) Run(ctx context.Context, world World) error {
	for range w.Steps {
		if err := w.step(ctx, world); err != nil {
			return err
		}
		if err := world.Work(ctx, w.Rand.IntN(6)); err != nil {
			return fmt.Errorf("letting the controller work: %w", err)
		}
	}
	return nil
}

func (w Walk) step(ctx context.Context, world World) error {
	key := model.Key{Namespace: "default", Name: pick(w.Rand, []string{"a", "b", "c", "d"})}
	switch n := w.Rand.IntN(20); {
	case n < 9:
		// A refusal is the world's answer to a user, not a fault.
		_ = world.Put(ctx, w.service(key))
		return nil
	case n < 12:
		return world.Delete(ctx, key)
	case n < 15:
		return world.SetEndpoints(ctx, key, w.endpoints(key))
	default:
		return world.Disturb(ctx, pick(w.Rand, []Disturbance{Restart, Kill, FailWrite, FailWrite, FailBackend, Wait}))
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// service returns a Service as some user may want it.
func (w Walk) service(key model.Key) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: w.annotations()},
		Spec: corev1.ServiceSpec{
			Type:                  pick(w.Rand, []corev1.ServiceType{corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP}),
			IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:                 w.ports(),
			Selector:              map[string]string{"app": key.Name},
			ExternalTrafficPolicy: pick(w.Rand, []corev1.ServiceExternalTrafficPolicy{corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal}),
		},
	}
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		svc.Spec.ExternalTrafficPolicy = ""
	} else if class := pick(w.Rand, w.Classes); class != "" {
		svc.Spec.LoadBalancerClass = &class
	}
	return svc
}

// annotations returns some options, among them bad ones and rivals for an address.
func (w Walk) annotations() map[string]string {
	out := map[string]string{}
	choices := [][2]string{
		{"fairlead.dev/address", pick(w.Rand, w.Addresses)},
		{"fairlead.dev/share", "together"},
		{"fairlead.dev/proxy-protocol", pick(w.Rand, []string{"v2", "v9"})},
		{"fairlead.dev/source-ranges", pick(w.Rand, []string{"10.0.0.0/8", "10.0.0.0/99"})},
		{"fairlead.dev/target-type", pick(w.Rand, []string{"pod", "node"})},
		{"fairlead.dev/hostname", "web.example.org"},
		{"example.org/unrelated", "x"},
	}
	if w.Pausing {
		choices = append(choices, [2]string{"fairlead.dev/paused", "true"})
	}
	for _, c := range choices {
		if w.Rand.IntN(5) == 0 {
			out[c[0]] = c[1]
		}
	}
	return out
}

func (w Walk) ports() []corev1.ServicePort {
	all := []corev1.ServicePort{
		{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080},
		{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, NodePort: 30443},
		{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053},
		{Name: "sctp", Protocol: corev1.ProtocolSCTP, Port: 99, NodePort: 30099},
	}
	w.Rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+w.Rand.IntN(3)]
}

// endpoints returns up to three pods on up to two nodes, in one or two slices.
func (w Walk) endpoints(key model.Key) []discoveryv1.EndpointSlice {
	var list []discoveryv1.EndpointSlice
	for s := range 1 + w.Rand.IntN(2) {
		slice := discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: key.Namespace, Name: fmt.Sprintf("%s-%d", key.Name, s),
				Labels: map[string]string{discoveryv1.LabelServiceName: key.Name},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
		}
		for _, p := range w.ports() {
			number := p.Port + 8000
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &number})
		}
		for range w.Rand.IntN(4) {
			node := pick(w.Rand, []string{"one", "two"})
			ready, serving := w.Rand.IntN(2) == 0, w.Rand.IntN(2) == 0
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprintf("10.0.0.%d", 1+w.Rand.IntN(6))}, NodeName: &node,
				Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving},
			})
		}
		list = append(list, slice)
	}
	return list
}
