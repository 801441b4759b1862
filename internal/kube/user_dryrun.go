package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// planManager is who a dry run applies as when nobody has applied before.
const planManager = FieldManager + "-plan"

// DryRun asks the API server what a Service would be if a manifest, given as
// JSON with its namespace, were applied: with all defaults, and checked by
// admission. Nothing is stored. The way is the one that live, nil when there is
// no Service, was last applied by, because only that way removes what the
// manifest no longer says: kubectl's client-side apply by its annotation,
// server-side apply by its field manager.
func (u *User) DryRun(ctx context.Context, manifest []byte, live *corev1.Service) (*corev1.Service, error) {
	svc := &corev1.Service{}
	if err := json.Unmarshal(manifest, svc); err != nil {
		return nil, fmt.Errorf("decoding the manifest: %w", err)
	}
	key := KeyOf(svc)
	ctx, cancel := u.bound(ctx)
	defer cancel()
	if live == nil {
		if err := u.client.Create(ctx, svc, client.DryRunAll, client.FieldOwner(planManager)); err != nil {
			return nil, fmt.Errorf("trying to create service %s: %w", key, err)
		}
		return svc, nil
	}
	patch, options, err := applyAs(manifest, live)
	if err != nil {
		return nil, fmt.Errorf("comparing service %s with its manifest: %w", key, err)
	}
	if err := u.client.Patch(ctx, svc, patch, append(options, client.DryRunAll)...); err != nil {
		return nil, fmt.Errorf("trying to apply service %s: %w", key, err)
	}
	return svc, nil
}

func applyAs(manifest []byte, live *corev1.Service) (client.Patch, []client.PatchOption, error) {
	last := live.Annotations[corev1.LastAppliedConfigAnnotation]
	manager := applier(live)
	if manager == "" && last != "" {
		patch, err := threeWay([]byte(last), manifest, live)
		return client.RawPatch(types.StrategicMergePatchType, patch), nil, err
	}
	if manager == "" {
		manager = planManager
	}
	return client.RawPatch(types.ApplyPatchType, manifest), []client.PatchOption{client.FieldOwner(manager), client.ForceOwnership}, nil
}

// applier names who applied a Service server-side last, apart from us.
func applier(svc *corev1.Service) string {
	name, latest := "", time.Time{}
	for _, m := range svc.ManagedFields {
		if m.Operation != metav1.ManagedFieldsOperationApply || m.Manager == FieldManager || m.Subresource != "" {
			continue
		}
		if m.Time != nil && !m.Time.Before(&metav1.Time{Time: latest}) {
			name, latest = m.Manager, m.Time.Time
		}
	}
	return name
}

// threeWay is what kubectl's client-side apply sends. The manifest carries the
// annotation of its own application: without any annotation in it, all those
// of others would be removed as well.
func threeWay(last, manifest []byte, live *corev1.Service) ([]byte, error) {
	modified, err := withLastApplied(manifest)
	if err != nil {
		return nil, err
	}
	live = live.DeepCopy()
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	current, err := json.Marshal(live)
	if err != nil {
		return nil, err
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(corev1.Service{})
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateThreeWayMergePatch(last, modified, current, schema, true)
}

func withLastApplied(manifest []byte) ([]byte, error) {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(manifest, &u.Object); err != nil {
		return nil, err
	}
	annotations := u.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[corev1.LastAppliedConfigAnnotation] = string(manifest)
	u.SetAnnotations(annotations)
	return json.Marshal(u.Object)
}
