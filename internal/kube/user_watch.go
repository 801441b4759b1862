package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// watchAgain is the pause before a watch that the API server ended is begun anew.
const watchAgain = time.Second

// Watch calls see with a Service as it is, nil when there is none, and again
// whenever it changes, until see returns true. It returns nil then, ctx's error
// when ctx ends before, and another error only for what trying again would not
// mend. Calls of see do not overlap.
func (u *User) Watch(ctx context.Context, key model.Key, see func(*corev1.Service) bool) error {
	only := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}}
	for {
		done, err := u.watchOnce(ctx, only, see)
		if done {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !passes(err) {
			return fmt.Errorf("watching service %s: %w", key, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(watchAgain):
		}
	}
}

// passes tells whether an error is one that time may mend. A cluster that does
// not answer at all is not waited for.
func passes(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

// watchOnce lists, then follows until the watch ends.
func (u *User) watchOnce(ctx context.Context, only []client.ListOption, see func(*corev1.Service) bool) (bool, error) {
	var list corev1.ServiceList
	if err := u.list(ctx, "services", &list, only...); err != nil {
		return false, err
	}
	var now *corev1.Service
	if len(list.Items) > 0 {
		now = &list.Items[0]
	}
	if see(now) {
		return true, nil
	}
	from := slices.Concat(only, []client.ListOption{&client.ListOptions{Raw: watchFrom(list.ResourceVersion)}})
	w, err := u.client.Watch(ctx, &corev1.ServiceList{}, from...)
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case e, open := <-w.ResultChan():
			switch {
			case !open:
				return false, nil
			case e.Type == watch.Error:
				return false, apierrors.FromObject(e.Object)
			case seeEvent(e, see):
				return true, nil
			}
		}
	}
}

func seeEvent(e watch.Event, see func(*corev1.Service) bool) bool {
	svc, ok := e.Object.(*corev1.Service)
	switch {
	case !ok || e.Type == watch.Bookmark:
		return false
	case e.Type == watch.Deleted:
		return see(nil)
	}
	return see(svc)
}
