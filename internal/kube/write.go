package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
)

// ErrMovedOn says that the object is no longer the one that was read: it was
// changed, replaced or deleted meanwhile. The cure is to read again.
var ErrMovedOn = errors.New("the object has changed since it was read")

// movedOn sorts the API's answers to a write on an old view (kubernetes: 404
// and 409, and 422 where the uid, the type or deletion forbids the write). Any
// other 422 is about what we wrote: reading again would not cure it.
func movedOn(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || forbiddenByChange(err) {
		return fmt.Errorf("%w: %w", ErrMovedOn, err)
	}
	return err
}

// forbiddenByChange tells whether a write is invalid only because the object
// is another one by now (metadata.uid), is being deleted (no finalizer may be
// added) or is no load balancer any more (status.loadBalancer.ingress).
func forbiddenByChange(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	causes := status.Status().Details.Causes
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(c metav1.StatusCause) bool {
		return c.Field != "metadata.uid" && c.Field != "metadata.finalizers" && c.Field != "status.loadBalancer.ingress"
	})
}

// SetFinalizers replaces a Service's finalizers by a merge patch that holds its
// resourceVersion, and updates svc with the answer. It is one write through the
// status subresource, the only right on Services we have. The error wraps
// ErrMovedOn when svc is not current.
func (c *Client) SetFinalizers(ctx context.Context, svc *corev1.Service, finalizers []string) error {
	if finalizers == nil {
		finalizers = []string{}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": svc.ResourceVersion,
		"finalizers":      finalizers,
	}})
	if err != nil {
		return fmt.Errorf("encoding finalizers of service %s: %w", KeyOf(svc), err)
	}
	if err := c.client.Status().Patch(ctx, svc, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("setting finalizers of service %s: %w", KeyOf(svc), movedOn(err))
	}
	return nil
}

// PutRecord creates the record, or updates it when one of that name exists with
// another content. A record that is already as wanted is not written.
func (c *Client) PutRecord(ctx context.Context, have *v1alpha1.ServiceRecord, want v1alpha1.ServiceRecordSpec) error {
	record := &v1alpha1.ServiceRecord{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.options.Namespace,
		Name:      v1alpha1.RecordName(want.ServiceRef.Namespace, want.ServiceRef.Name),
	}}
	if have == nil {
		record.Spec = want
		if err := c.client.Create(ctx, record, client.FieldOwner(FieldManager)); err != nil {
			return fmt.Errorf("creating record %s: %w", record.Name, alreadyMovedOn(err))
		}
		return nil
	}
	if equality.Semantic.DeepEqual(have.Spec, want) {
		return nil
	}
	record = have.DeepCopy()
	record.Spec = want
	if err := c.client.Update(ctx, record, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("updating record %s: %w", record.Name, movedOn(err))
	}
	return nil
}

func alreadyMovedOn(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("%w: %w", ErrMovedOn, err)
	}
	return err
}

// DeleteRecord deletes a record; one that is gone is no error.
func (c *Client) DeleteRecord(ctx context.Context, record *v1alpha1.ServiceRecord) error {
	uid := record.UID
	err := c.client.Delete(ctx, record, client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting record %s: %w", record.Name, movedOn(err))
	}
	return nil
}

// PutReservation creates or replaces the reservation of one address.
func (c *Client) PutReservation(ctx context.Context, name string, spec v1alpha1.AddressReservationSpec) error {
	r := &v1alpha1.AddressReservation{ObjectMeta: metav1.ObjectMeta{Namespace: c.options.Namespace, Name: name}, Spec: spec}
	err := c.client.Create(ctx, r, client.FieldOwner(FieldManager))
	if !apierrors.IsAlreadyExists(err) {
		return wrapReservation("creating", name, err)
	}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return wrapReservation("encoding", name, err)
	}
	err = c.client.Patch(ctx, r, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldManager))
	return wrapReservation("updating", name, err)
}

// DeleteReservation ends the reservation of one address; one that is gone is
// no error.
func (c *Client) DeleteReservation(ctx context.Context, name string) error {
	r := &v1alpha1.AddressReservation{ObjectMeta: metav1.ObjectMeta{Namespace: c.options.Namespace, Name: name}}
	return wrapReservation("deleting", name, client.IgnoreNotFound(c.client.Delete(ctx, r)))
}

func wrapReservation(doing, name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s address reservation %s: %w", doing, name, err)
	}
	return nil
}
