package controller

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// clean removes everything that was made for a key that is not to be served
// any more. The finalizer goes last, so a crash anywhere only starts it again.
func (c *Controller) clean(ctx context.Context, key model.Key, view kube.View) error {
	svc := view.Service
	if c.holdsClean(view) {
		return nil
	}
	names := slices.Sorted(maps.Keys(c.Providers))
	if view.Record != nil {
		names = []string{view.Record.Spec.Provider}
	}
	c.tellClean(svc, "DeletingLoadBalancer", "Deleting load balancer")
	for _, name := range names {
		if err := c.removeFrom(ctx, name, key); err != nil {
			c.tellCleanFailed(svc, err)
			return err
		}
	}
	if err := c.release(ctx, key); err != nil {
		return err
	}
	if view.Record != nil {
		if err := c.Ledger.DeleteRecord(ctx, view.Record); err != nil {
			return err
		}
	}
	if err := c.letGo(ctx, svc, view); err != nil {
		return err
	}
	c.tellClean(svc, "DeletedLoadBalancer", "Deleted load balancer")
	c.forget(key)
	return nil
}

// holdsClean tells whether clean-up has to wait, and says so on the Service.
func (c *Controller) holdsClean(view kube.View) bool {
	svc := view.Service
	paused := svc != nil && isPaused(view)
	if !c.Observe && !paused {
		return false
	}
	if svc != nil {
		message := "Its load balancer is not deleted, because the controller only observes; set mode to apply in its configuration"
		if paused {
			message = fmt.Sprintf("Its load balancer is not deleted, because the Service is paused; remove the annotation %s", annotation.Paused.Key())
		}
		c.Writer.Tell(svc, kube.Event{Warning: true, Reason: "DeleteLoadBalancerFailed", Message: message}, c.Now())
	}
	return true
}

func isPaused(view kube.View) bool {
	in := annotation.Input{Annotations: view.Service.Annotations}
	if view.Record != nil {
		in.Accepted = acceptedOf(view.Record)
	}
	paused, _ := annotation.Parse(in).Values.Bool(annotation.Paused)
	return paused
}

// removeFrom removes a key's balancer from one provider.
func (c *Controller) removeFrom(ctx context.Context, name string, key model.Key) error {
	p, ok := c.Providers[name]
	if !ok {
		return fmt.Errorf("removing balancer %s: provider %q holds it and is not configured; add it to providers", key, name)
	}
	have, err := p.Observe(ctx, key)
	if err != nil {
		return fmt.Errorf("observing balancer %s: %w", key, err)
	}
	removal := plan.Remove(key, have)
	if removal.Empty() {
		return nil
	}
	if _, err := p.Apply(ctx, removal); err != nil {
		return fmt.Errorf("removing balancer %s: %w", key, err)
	}
	c.Log.InfoContext(ctx, "removed a balancer", slog.String("service", key.String()))
	return nil
}

// release gives the key's addresses back, held for it for the release delay.
func (c *Controller) release(ctx context.Context, key model.Key) error {
	c.addresses.release(key, c.Now(), c.ReleaseDelay)
	if err := c.writeReservations(ctx); err != nil {
		return err
	}
	c.enqueue(ctx, c.addresses.waiting())
	return nil
}

// letGo takes our words and our finalizers off a Service that still exists.
func (c *Controller) letGo(ctx context.Context, svc *corev1.Service, view kube.View) error {
	if svc == nil {
		return nil
	}
	if svc.DeletionTimestamp == nil {
		if err := c.Writer.ClearStatus(ctx, svc); err != nil {
			return err
		}
	}
	keep := slices.DeleteFunc(slices.Clone(svc.Finalizers), func(f string) bool {
		return f == translate.Finalizer || (f == translate.SharedFinalizer && actedAsDefault(svc, view))
	})
	if len(keep) == len(svc.Finalizers) {
		return nil
	}
	return c.Writer.SetFinalizers(ctx, svc, keep)
}

// actedAsDefault tells whether the shared finalizer was ours to set. Without a
// record it is taken for ours beside our own: left behind it would block the
// deletion for good, and who else needs it sets it again.
func actedAsDefault(svc *corev1.Service, view kube.View) bool {
	if view.Record != nil {
		return view.Record.Spec.Class == ""
	}
	return slices.Contains(svc.Finalizers, translate.Finalizer)
}

// ignore leaves a key alone that nothing claims, but for what we said on a
// Service that was never served, and what a backend held for it at the start.
func (c *Controller) ignore(ctx context.Context, key model.Key, svc *corev1.Service) error {
	c.forget(key)
	c.addresses.wait(key, false, c.Now())
	if svc != nil && othersService(svc) && svc.DeletionTimestamp == nil {
		if err := c.Writer.ClearStatus(ctx, svc); err != nil {
			return err
		}
	}
	// A load balancer Service without our finalizer and record was given to
	// somebody else, and what serves it with it.
	released := svc != nil && svc.Spec.Type == corev1.ServiceTypeLoadBalancer
	if c.Observe || released {
		return nil
	}
	if err := c.sweep(ctx, key); err != nil {
		return err
	}
	if len(c.addresses.holds(key)) > 0 {
		c.addresses.release(key, c.Now(), 0)
		c.enqueue(ctx, c.addresses.waiting())
	}
	return nil
}

// sweep removes what a backend may still hold for a key: what it held when we
// started, and what this process itself still serves after a release.
func (c *Controller) sweep(ctx context.Context, key model.Key) error {
	leftover := c.isLeftover(key)
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		if !leftover && !c.Providers[name].Traits().Ephemeral {
			continue
		}
		if err := c.removeFrom(ctx, name, key); err != nil {
			return err
		}
	}
	c.swept(key)
	return nil
}

// othersService tells whether no Fairlead controller at all serves the Service,
// whatever its configuration is.
func othersService(svc *corev1.Service) bool {
	class := svc.Spec.LoadBalancerClass
	return svc.Spec.Type != corev1.ServiceTypeLoadBalancer ||
		(class != nil && !strings.HasPrefix(*class, translate.ClassPrefix))
}

func (c *Controller) isLeftover(key model.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leftover[key]
}

func (c *Controller) swept(key model.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leftover, key)
}

func (c *Controller) tellClean(svc *corev1.Service, reason, message string) {
	if svc != nil {
		c.Writer.Tell(svc, kube.Event{Reason: reason, Message: message}, c.Now())
	}
}

func (c *Controller) tellCleanFailed(svc *corev1.Service, err error) {
	if svc != nil {
		c.Writer.Tell(svc, kube.Event{Warning: true, Reason: "DeleteLoadBalancerFailed", Message: "Error deleting load balancer: " + err.Error()}, c.Now())
	}
}
