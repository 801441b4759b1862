package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
)

// releaseManager names what a person's release writes in managedFields.
const releaseManager = FieldManager + "-release"

// watchFrom asks for what happens after a list; the API server ends such a
// watch by itself after some minutes.
func watchFrom(resourceVersion string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: resourceVersion}
}

// Annotate sets annotations of a Service, and updates svc with the answer. The
// error wraps ErrMovedOn when svc is not current.
func (u *User) Annotate(ctx context.Context, svc *corev1.Service, annotations map[string]string) error {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": svc.ResourceVersion, "annotations": annotations,
	}})
	if err != nil {
		return fmt.Errorf("encoding annotations of service %s: %w", KeyOf(svc), err)
	}
	ctx, cancel := u.bound(ctx)
	defer cancel()
	key := KeyOf(svc)
	if err := u.client.Patch(ctx, svc, client.RawPatch(types.MergePatchType, text), client.FieldOwner(releaseManager)); err != nil {
		return fmt.Errorf("writing service %s: %w", key, movedOn(err))
	}
	return nil
}

// Release takes our conditions and the annotation fairlead.dev/observed off a
// Service, leaves its addresses, makes finalizers all that it has, and updates
// svc with the answer. It is a single write, so a controller that puts back
// what it reports comes before or after it, never between; and it writes
// nothing when there is nothing to change. The error wraps ErrMovedOn when svc
// is not current. The API server takes annotations and finalizers along with a
// status (k8s.io/kubernetes, the Service's status strategy keeps spec alone).
func (u *User) Release(ctx context.Context, svc *corev1.Service, finalizers []string) error {
	metadata := map[string]any{"resourceVersion": svc.ResourceVersion}
	if _, there := svc.Annotations[annotation.Observed.Key()]; there {
		metadata["annotations"] = map[string]any{annotation.Observed.Key(): nil}
	}
	if !slices.Equal(svc.Finalizers, finalizers) {
		metadata["finalizers"] = append([]string{}, finalizers...)
	}
	body := map[string]any{"metadata": metadata}
	keep := slices.DeleteFunc(slices.Clone(svc.Status.Conditions), func(c metav1.Condition) bool { return saidByUs(svc, c) })
	if len(keep) < len(svc.Status.Conditions) {
		body["status"] = map[string]any{"conditions": keep}
	}
	if len(body) == 1 && len(metadata) == 1 {
		return nil
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding the release of service %s: %w", KeyOf(svc), err)
	}
	ctx, cancel := u.bound(ctx)
	defer cancel()
	key := KeyOf(svc)
	if err := u.client.Status().Patch(ctx, svc, client.RawPatch(types.MergePatchType, text), client.FieldOwner(releaseManager)); err != nil {
		return fmt.Errorf("writing service %s: %w", key, movedOn(err))
	}
	return nil
}

// Speaks tells whether a Service carries conditions of ours or the annotation
// fairlead.dev/observed.
func Speaks(svc *corev1.Service) bool {
	_, observed := svc.Annotations[annotation.Observed.Key()]
	return observed || slices.ContainsFunc(svc.Status.Conditions, func(c metav1.Condition) bool { return saidByUs(svc, c) })
}

// saidByUs tells whose a condition is: upstream's type may be another manager's.
func saidByUs(svc *corev1.Service, c metav1.Condition) bool {
	if c.Type == status.PortsError {
		return strings.Contains(ownFields(svc), fmt.Sprintf(`k:{\"type\":\"%s\"}`, c.Type)) ||
			strings.Contains(ownFields(svc), fmt.Sprintf(`k:{"type":"%s"}`, c.Type))
	}
	return strings.HasPrefix(c.Type, annotation.Prefix)
}

// Forget deletes the record of a Service; one that is gone is no error.
func (u *User) Forget(ctx context.Context, key model.Key) error {
	ctx, cancel := u.bound(ctx)
	defer cancel()
	record := &v1alpha1.ServiceRecord{ObjectMeta: metav1.ObjectMeta{
		Namespace: u.system, Name: v1alpha1.RecordName(key.Namespace, key.Name),
	}}
	if err := client.IgnoreNotFound(u.client.Delete(ctx, record)); err != nil {
		return fmt.Errorf("deleting the record of service %s: %w", key, err)
	}
	return nil
}

// Leader names the controller that holds the Lease at a time; empty: none does
// (coordination.k8s.io/v1 LeaseSpec).
func (u *User) Leader(ctx context.Context, now time.Time) (string, error) {
	var lease coordinationv1.Lease
	found, err := u.get(ctx, "lease", model.Key{Namespace: u.system, Name: LeaseName}, &lease)
	if err != nil || !found {
		return "", err
	}
	spec := lease.Spec
	if spec.HolderIdentity == nil || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return "", nil
	}
	end := spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
	if now.After(end) {
		return "", nil
	}
	return *spec.HolderIdentity, nil
}
