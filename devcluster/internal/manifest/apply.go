package manifest

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// fieldManager is the name under which fields are owned in the cluster.
const fieldManager = "devcluster"

// settleTime bounds the wait for a new kind to be served.
const settleTime = 20 * time.Second

// Apply brings objects into the cluster: namespaces first, then resource
// definitions, then the rest in the given order. When it returns, every kind
// that was defined is found by discovery and can be listed. Fields that another
// manager owns are taken over. The first object that the API server refuses
// ends it; applying the same objects again changes nothing.
func Apply(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making client for manifests: %w", err)
	}
	finder, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("making discovery client for manifests: %w", err)
	}
	a := applier{
		client: client,
		mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(finder)),
	}
	for _, object := range inOrder(objects) {
		if err := a.apply(ctx, object); err != nil {
			return fmt.Errorf("applying %s: %w", describe(object), err)
		}
	}
	return a.awaitServed(ctx)
}

// inOrder returns objects with those first that others need.
func inOrder(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	rank := func(o *unstructured.Unstructured) int {
		switch o.GroupVersionKind().GroupKind() {
		case schema.GroupKind{Kind: "Namespace"}:
			return 0
		case definitionKind():
			return 1
		default:
			return 2
		}
	}
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	return sorted
}

func definitionKind() schema.GroupKind {
	return schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

func describe(o *unstructured.Unstructured) string {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return o.GetKind() + " " + name
}

type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	// fresh holds the kinds that were defined on the way. Discovery and the
	// handlers of such a kind may lag behind its definition for a moment.
	fresh []schema.GroupKind
}

func (a *applier) apply(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind().GroupKind()
	err := a.applyOnce(ctx, object)
	if err != nil && slices.Contains(a.fresh, kind) {
		err = patiently(ctx, func(ctx context.Context) error {
			a.mapper.Reset()
			return a.applyOnce(ctx, object)
		})
	}
	if err != nil || kind != definitionKind() {
		return err
	}
	group, _, err := unstructured.NestedString(object.Object, "spec", "group")
	if err != nil {
		return fmt.Errorf("reading its group: %w", err)
	}
	defined, _, err := unstructured.NestedString(object.Object, "spec", "names", "kind")
	if err != nil {
		return fmt.Errorf("reading its kind: %w", err)
	}
	a.fresh = append(a.fresh, schema.GroupKind{Group: group, Kind: defined})
	return nil
}

func (a *applier) applyOnce(ctx context.Context, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return fmt.Errorf("finding its resource: %w", err)
	}
	var target dynamic.ResourceInterface = a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		target = a.client.Resource(mapping.Resource).Namespace(namespace)
	}
	_, err = target.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// awaitServed waits until the kinds that were defined can be used by anyone.
func (a *applier) awaitServed(ctx context.Context) error {
	for _, kind := range a.fresh {
		err := patiently(ctx, func(ctx context.Context) error {
			mapping, err := a.mapper.RESTMapping(kind)
			if err != nil {
				a.mapper.Reset()
				return err
			}
			_, err = a.client.Resource(mapping.Resource).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
		if err != nil {
			return fmt.Errorf("waiting for kind %s to be served: %w", kind, err)
		}
	}
	return nil
}

// patiently calls try until it succeeds, fails for another reason than a kind
// that is not served yet, or settleTime is over. It returns try's last error.
func patiently(ctx context.Context, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, settleTime, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		if last != nil && !unserved(last) {
			return false, last
		}
		return last == nil, nil
	})
	if last != nil {
		return last
	}
	return err
}

func unserved(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }
