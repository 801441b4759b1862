package kubetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/status"
)

// write makes one write between its hooks.
func (c *Cluster) write(ctx context.Context, w Write, effect func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("writing %s: %w", w, err)
	}
	c.mu.Lock()
	c.writes = append(c.writes, w)
	before, after := c.before, c.after
	c.mu.Unlock()
	if before != nil {
		if err := before(w); err != nil {
			return fmt.Errorf("writing %s: %w", w, err)
		}
	}
	if err := c.take(effect); err != nil {
		return fmt.Errorf("writing %s: %w", w, err)
	}
	if after != nil {
		if err := after(w); err != nil {
			return fmt.Errorf("writing %s: %w", w, err)
		}
	}
	return nil
}

func (c *Cluster) take(effect func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return effect()
}

func movedOn(why string) error { return fmt.Errorf("%w: %s", kube.ErrMovedOn, why) }

// current returns the stored form of a Service that was read before, if it is
// still the same object. The caller holds the lock.
func (c *Cluster) current(svc *corev1.Service) (*service, error) {
	s := c.services[kube.KeyOf(svc)]
	if s == nil {
		return nil, movedOn("not found")
	}
	if s.UID != svc.UID {
		return nil, movedOn("metadata.uid is immutable")
	}
	return s, nil
}

// SetFinalizers implements the controller's Writer: a patch that holds the
// resourceVersion. No finalizer can be added to what is being deleted.
func (c *Cluster) SetFinalizers(ctx context.Context, svc *corev1.Service, finalizers []string) error {
	key := kube.KeyOf(svc)
	return c.write(ctx, Write{Finalizers, key.String()}, func() error {
		s, err := c.current(svc)
		if err != nil {
			return err
		}
		if s.ResourceVersion != svc.ResourceVersion {
			return movedOn("resourceVersion has changed")
		}
		added := slices.ContainsFunc(finalizers, func(f string) bool { return !slices.Contains(s.Finalizers, f) })
		if s.DeletionTimestamp != nil && added {
			return movedOn("no finalizer can be added to an object that is being deleted")
		}
		s.Finalizers = slices.Clone(finalizers)
		c.touch(&s.ObjectMeta)
		c.answer(svc, s)
		c.finish(key, s)
		return nil
	})
}

// answer updates the caller's object as a client does. The caller holds the lock.
func (c *Cluster) answer(svc *corev1.Service, s *service) {
	*svc = *s.DeepCopy()
	svc.ManagedFields = s.managedFields()
}

// applied is the part of an apply's body that is taken to the Service.
type applied struct {
	Metadata struct {
		UID         types.UID         `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Status struct {
		LoadBalancer *corev1.LoadBalancerStatus `json:"loadBalancer"`
		Conditions   []metav1.Condition         `json:"conditions"`
	} `json:"status"`
}

// ApplyStatus implements the controller's Writer with the bodies and the
// comparison of kube.Client.
func (c *Cluster) ApplyStatus(ctx context.Context, svc *corev1.Service, said kube.Said, now time.Time) (bool, error) {
	if kube.Says(svc, said) {
		return false, nil
	}
	return true, c.apply(ctx, svc, kube.ApplyBody(svc, said, now))
}

// ClearStatus implements the controller's Writer as kube.Client does.
func (c *Cluster) ClearStatus(ctx context.Context, svc *corev1.Service) error {
	if !ownsAny(svc) {
		return nil
	}
	said := kube.Said{Report: status.Report{KeepRival: true}}
	return c.apply(ctx, svc, kube.ApplyBody(svc, said, time.Time{}))
}

func (c *Cluster) apply(ctx context.Context, svc *corev1.Service, content map[string]any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encoding the apply: %w", err)
	}
	var body applied
	if err := json.Unmarshal(text, &body); err != nil {
		return fmt.Errorf("reading the apply: %w", err)
	}
	return c.write(ctx, Write{Status, kube.KeyOf(svc).String()}, func() error {
		s, err := c.current(svc)
		if err != nil {
			return err
		}
		if lb := body.Status.LoadBalancer; lb != nil && len(lb.Ingress) > 0 && s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			return movedOn("status.loadBalancer.ingress may only be used with type LoadBalancer")
		}
		s.apply(body)
		c.touch(&s.ObjectMeta)
		c.answer(svc, s)
		return nil
	})
}

// apply carries out a forced server-side apply of our manager: what it holds is
// set and ours, and what was ours alone and is left out goes.
func (s *service) apply(body applied) {
	for _, k := range s.annotations {
		delete(s.Annotations, k)
	}
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	maps.Copy(s.Annotations, body.Metadata.Annotations)
	s.annotations = slices.Sorted(maps.Keys(body.Metadata.Annotations))
	s.Status.Conditions = slices.DeleteFunc(s.Status.Conditions, func(x metav1.Condition) bool {
		return slices.Contains(s.conditions, x.Type) ||
			slices.ContainsFunc(body.Status.Conditions, func(y metav1.Condition) bool { return x.Type == y.Type })
	})
	s.conditions = nil
	for _, x := range body.Status.Conditions {
		s.Status.Conditions = append(s.Status.Conditions, x)
		s.conditions = append(s.conditions, x.Type)
	}
	switch {
	case body.Status.LoadBalancer != nil:
		s.Status.LoadBalancer, s.ingress = *body.Status.LoadBalancer, kube.FieldManager
	case s.ingress == kube.FieldManager:
		s.Status.LoadBalancer, s.ingress = corev1.LoadBalancerStatus{}, ""
	}
}

// Tell implements the controller's Writer.
func (c *Cluster) Tell(svc *corev1.Service, e kube.Event, _ time.Time) {
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, fmt.Sprintf("%s %s %s: %s", kind, e.Reason, kube.KeyOf(svc), e.Message))
}

// PutRecord implements the controller's Ledger as kube.Client does.
func (c *Cluster) PutRecord(ctx context.Context, have *v1alpha1.ServiceRecord, want v1alpha1.ServiceRecordSpec) error {
	if have != nil && equality.Semantic.DeepEqual(have.Spec, want) {
		return nil
	}
	name := v1alpha1.RecordName(want.ServiceRef.Namespace, want.ServiceRef.Name)
	return c.write(ctx, Write{PutRecord, name}, func() error {
		stored := c.records[name]
		switch {
		case have == nil && stored != nil:
			return movedOn("the record exists")
		case have != nil && stored == nil:
			return movedOn("not found")
		case have != nil && have.ResourceVersion != stored.ResourceVersion:
			return movedOn("resourceVersion has changed")
		case stored == nil:
			c.recordUIDs++
			stored = &v1alpha1.ServiceRecord{ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID(fmt.Sprintf("record-%d", c.recordUIDs)), CreationTimestamp: metav1.NewTime(c.now()),
			}}
			c.records[name] = stored
		}
		want.DeepCopyInto(&stored.Spec)
		c.touch(&stored.ObjectMeta)
		return nil
	})
}

// DeleteRecord implements the controller's Ledger; the uid must match.
func (c *Cluster) DeleteRecord(ctx context.Context, record *v1alpha1.ServiceRecord) error {
	return c.write(ctx, Write{DeleteRecord, record.Name}, func() error {
		stored := c.records[record.Name]
		if stored != nil && stored.UID != record.UID {
			return movedOn("the uid differs")
		}
		delete(c.records, record.Name)
		return nil
	})
}

// errBackwards is the answer of the resource's own validation.
var errBackwards = errors.New("spec: until is not before since")

// PutReservation implements the controller's Ledger.
func (c *Cluster) PutReservation(ctx context.Context, name string, spec v1alpha1.AddressReservationSpec) error {
	return c.write(ctx, Write{PutReservation, name}, func() error {
		if spec.Until.Before(&spec.Since) {
			return errBackwards
		}
		r := &v1alpha1.AddressReservation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		c.touch(&r.ObjectMeta)
		c.reservations[name] = r
		return nil
	})
}

// DeleteReservation implements the controller's Ledger.
func (c *Cluster) DeleteReservation(ctx context.Context, name string) error {
	return c.write(ctx, Write{DeleteReservation, name}, func() error {
		delete(c.reservations, name)
		return nil
	})
}
