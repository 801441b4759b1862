package kubetest

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// View implements the controller's Reader as kube.Client does.
func (c *Cluster) View(ctx context.Context, key model.Key) (kube.View, error) {
	if err := ctx.Err(); err != nil {
		return kube.View{}, fmt.Errorf("reading service %s: %w", key, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v := kube.View{Service: c.copyOf(key)}
	if r := c.records[v1alpha1.RecordName(key.Namespace, key.Name)]; r != nil {
		v.Record = r.DeepCopy()
	}
	if v.Service == nil || v.Service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return v, nil
	}
	if v.Selected = !c.deselected[key]; !v.Selected {
		return v, nil
	}
	v.Slices = copies(c.slices[key], func(s discoveryv1.EndpointSlice) discoveryv1.EndpointSlice { return *s.DeepCopy() })
	v.Nodes = copies(c.nodes, func(n corev1.Node) corev1.Node { return *n.DeepCopy() })
	return v, nil
}

func copies[T any](in []T, dup func(T) T) []T {
	out := make([]T, 0, len(in))
	for _, x := range in {
		out = append(out, dup(x))
	}
	return out
}

// Services implements the controller's Reader as kube.Client does.
func (c *Cluster) Services(ctx context.Context, finalizer string) ([]kube.View, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []kube.View
	for _, key := range sortedKeys(c.services) {
		s := c.copyOf(key)
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer || slices.Contains(s.Finalizers, finalizer) {
			out = append(out, kube.View{Service: s, Selected: !c.deselected[key]})
		}
	}
	return out, nil
}

// Records returns every record, sorted by name.
func (c *Cluster) Records(ctx context.Context) ([]v1alpha1.ServiceRecord, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("listing records: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []v1alpha1.ServiceRecord
	for _, name := range sortedNames(c.records) {
		out = append(out, *c.records[name].DeepCopy())
	}
	return out, nil
}

// Reservations returns every reservation, sorted by name.
func (c *Cluster) Reservations(ctx context.Context) ([]v1alpha1.AddressReservation, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("listing reservations: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []v1alpha1.AddressReservation
	for _, name := range sortedNames(c.reservations) {
		out = append(out, *c.reservations[name].DeepCopy())
	}
	return out, nil
}
