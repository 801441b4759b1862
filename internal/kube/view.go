package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// sliceIndex finds a Service's EndpointSlices without a pass over all of them.
const sliceIndex = "fairlead.service"

// View is what the cluster says about one key, at one moment that is not older
// than our own last write to it. It belongs to the caller.
type View struct {
	// Service is nil when there is none.
	Service *corev1.Service
	// Selected tells that the configured selectors take the Service.
	Selected bool
	Slices   []discoveryv1.EndpointSlice
	Nodes    []corev1.Node
	// Record is nil when there is none.
	Record *v1alpha1.ServiceRecord
}

// View reads what concerns one key. Slices and nodes are read only for a
// Service of type LoadBalancer.
func (c *Client) View(ctx context.Context, key model.Key) (View, error) {
	var v View
	var err error
	if v.Record, err = c.record(ctx, key); err != nil {
		return View{}, err
	}
	if v.Service, err = c.service(ctx, key); err != nil {
		return View{}, err
	}
	if v.Service == nil || v.Service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return v, nil
	}
	if v.Selected, err = c.selected(ctx, v.Service); err != nil || !v.Selected {
		return v, err
	}
	if v.Slices, err = c.slices(ctx, key); err != nil {
		return View{}, err
	}
	v.Nodes, err = c.nodes(ctx)
	return v, err
}

func (c *Client) service(ctx context.Context, key model.Key) (*corev1.Service, error) {
	var svc corev1.Service
	err := c.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, &svc)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading service %s: %w", key, err)
	}
	return &svc, nil
}

func (c *Client) record(ctx context.Context, key model.Key) (*v1alpha1.ServiceRecord, error) {
	var r v1alpha1.ServiceRecord
	name := v1alpha1.RecordName(key.Namespace, key.Name)
	err := c.client.Get(ctx, client.ObjectKey{Namespace: c.options.Namespace, Name: name}, &r)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading record of service %s: %w", key, err)
	}
	return &r, nil
}

// selected applies the configured selectors; a namespace that is gone selects nothing.
func (c *Client) selected(ctx context.Context, svc *corev1.Service) (bool, error) {
	if s := c.options.ServiceSelector; s != nil && !s.Matches(labels.Set(svc.Labels)) {
		return false, nil
	}
	if c.options.NamespaceSelector == nil {
		return true, nil
	}
	var ns corev1.Namespace
	err := c.client.Get(ctx, client.ObjectKey{Name: svc.Namespace}, &ns)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", svc.Namespace, err)
	}
	return c.options.NamespaceSelector.Matches(labels.Set(ns.Labels)), nil
}

func (c *Client) slices(ctx context.Context, key model.Key) ([]discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	err := c.client.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{sliceIndex: key.Name})
	if err != nil {
		return nil, fmt.Errorf("listing endpoint slices of service %s: %w", key, err)
	}
	return list.Items, nil
}

func (c *Client) nodes(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	// The cached nodes are only read.
	if err := c.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return list.Items, nil
}

// Services returns every Service of type LoadBalancer, and every other one
// that carries the finalizer, sorted by key.
func (c *Client) Services(ctx context.Context, finalizer string) ([]View, error) {
	var list corev1.ServiceList
	if err := c.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	var out []View
	for i := range list.Items {
		svc := &list.Items[i]
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer && !slices.Contains(svc.Finalizers, finalizer) {
			continue
		}
		selected, err := c.selected(ctx, svc)
		if err != nil {
			return nil, err
		}
		out = append(out, View{Service: svc, Selected: selected})
	}
	slices.SortFunc(out, func(a, b View) int { return KeyOf(a.Service).Compare(KeyOf(b.Service)) })
	return out, nil
}

// Records returns every record, sorted by name.
func (c *Client) Records(ctx context.Context) ([]v1alpha1.ServiceRecord, error) {
	var list v1alpha1.ServiceRecordList
	if err := c.client.List(ctx, &list, client.InNamespace(c.options.Namespace)); err != nil {
		return nil, fmt.Errorf("listing service records: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.ServiceRecord) int { return compareNames(&a, &b) })
	return list.Items, nil
}

// Reservations returns every address reservation, sorted by name.
func (c *Client) Reservations(ctx context.Context) ([]v1alpha1.AddressReservation, error) {
	var list v1alpha1.AddressReservationList
	if err := c.client.List(ctx, &list, client.InNamespace(c.options.Namespace)); err != nil {
		return nil, fmt.Errorf("listing address reservations: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.AddressReservation) int { return compareNames(&a, &b) })
	return list.Items, nil
}

func compareNames(a, b client.Object) int {
	return model.Key{Namespace: a.GetNamespace(), Name: a.GetName()}.
		Compare(model.Key{Namespace: b.GetNamespace(), Name: b.GetName()})
}

// KeyOf returns an object's key.
func KeyOf(o client.Object) model.Key {
	return model.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}
