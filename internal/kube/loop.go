package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// The delays between tries of a key that failed: at once after a conflict,
// within a second after the first error, and never more than a minute apart.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 60 * time.Second
)

// changesBacklog bounds keys from outside of the API that wait to be queued.
const changesBacklog = 1024

// Loop is what runs against the cluster.
type Loop struct {
	// Workers is how many keys are worked on at the same time; one key is
	// never worked on twice at a time.
	Workers int
	// Start is called once after the first lists are in and, when electing,
	// after this process became the leader. Nothing is reconciled before it
	// returns.
	Start func(ctx context.Context) error
	// Reconcile brings one key to its wanted state, and says when to come
	// back; zero: only when something changes.
	Reconcile func(ctx context.Context, key model.Key) (time.Duration, error)
	// Background runs beside, as leader, until ctx ends.
	Background []func(ctx context.Context) error
	// Standby is called when the first lists are in and another process leads.
	Standby func(ctx context.Context) error
	// Changes are keys to reconcile for reasons outside of the API.
	Changes <-chan model.Key
}

// Run serves until ctx ends or leadership is lost. It returns nil after a
// graceful stop.
func (c *Client) Run(ctx context.Context, loop Loop) error {
	if err := c.index(ctx); err != nil {
		return explained(err)
	}
	started := make(chan struct{})
	if err := c.addController(loop, started); err != nil {
		return explained(err)
	}
	if err := c.manager.Add(synced{c, loop.Standby}); err != nil {
		return fmt.Errorf("adding a background task: %w", err)
	}
	runnables := append(slices.Clone(loop.Background), c.runEvents, c.starter(loop, started))
	for _, r := range runnables {
		if err := c.manager.Add(manager.RunnableFunc(r)); err != nil {
			return fmt.Errorf("adding a background task: %w", err)
		}
	}
	return explained(runUntil(ctx, c.manager.Start, c.listed))
}

// explained says what helps when a kind of ours is not there.
func explained(err error) error {
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err) || discovery.IsGroupDiscoveryFailedError(err):
		return fmt.Errorf("running the controller: %w; apply the manifests of deploy/crds first", err)
	default:
		return fmt.Errorf("running the controller: %w", err)
	}
}

// runUntil runs until ctx ends, and waits for the end of what run began. Before
// begun is closed run has begun nothing, and is left behind: a manager whose
// first lists are refused, or find no API server, does not heed its context.
func runUntil(ctx context.Context, run func(context.Context) error, begun <-chan struct{}) error {
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case <-begun:
		return <-ended
	default:
		return nil
	}
}

// synced notes that the first lists are in and that the Lease was not to be had
// at once, so that another process leads.
type synced struct {
	client  *Client
	standby func(ctx context.Context) error
}

// Start implements manager.Runnable. Whoever finds the Lease free gets it with
// the first try; to be a standby takes one more.
func (s synced) Start(ctx context.Context) error {
	if err := s.client.waitForCache(ctx); err != nil {
		return err
	}
	close(s.client.listed)
	select {
	case <-time.After(s.client.options.RetryPeriod):
		s.client.waits.Store(true)
		return s.standby(ctx)
	case <-s.client.manager.Elected():
	case <-ctx.Done():
	}
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (synced) NeedLeaderElection() bool { return false }

// Standby tells that the first lists are in and that another process leads. It
// is never so without leader election.
func (c *Client) Standby() bool {
	select {
	case <-c.manager.Elected():
		return false
	default:
		return c.options.Elect && c.waits.Load()
	}
}

func (c *Client) runEvents(ctx context.Context) error {
	c.events.run(ctx)
	return nil
}

// starter calls Start once and then lets reconciles begin. A start that fails
// is an error of the whole process: the next one starts afresh.
func (c *Client) starter(loop Loop, started chan<- struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := c.waitForCache(ctx); err != nil {
			return err
		}
		if err := loop.Start(ctx); err != nil {
			return err
		}
		close(started)
		return nil
	}
}

func (c *Client) index(ctx context.Context) error {
	err := c.manager.GetFieldIndexer().IndexField(ctx, &discoveryv1.EndpointSlice{}, sliceIndex, func(o client.Object) []string {
		return []string{o.GetLabels()[discoveryv1.LabelServiceName]}
	})
	if err != nil {
		return fmt.Errorf("indexing endpoint slices: %w", err)
	}
	return nil
}

func (c *Client) addController(loop Loop, started <-chan struct{}) error {
	again := true
	b := builder.ControllerManagedBy(c.manager).Named("service").
		For(&corev1.Service{}).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(serviceOfSlice)).
		Watches(&v1alpha1.ServiceRecord{}, handler.EnqueueRequestsFromMapFunc(serviceOfRecord)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.allServices), builder.WithPredicates(nodeChanges())).
		WatchesRawSource(changes(loop.Changes)).
		WithOptions(controller.Options{
			// One process may lead several times, one after the other.
			SkipNameValidation:      &again,
			MaxConcurrentReconciles: loop.Workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		})
	if c.options.NamespaceSelector != nil {
		b = b.Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(c.servicesOfNamespace))
	}
	if err := b.Complete(c.reconciler(loop, started)); err != nil {
		return fmt.Errorf("building the controller: %w", err)
	}
	return nil
}

// reconciler waits for the start, and turns "the object moved on" into a quick
// retry that counts as no failure.
func (c *Client) reconciler(loop Loop, started <-chan struct{}) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		select {
		case <-started:
		case <-ctx.Done():
			return reconcile.Result{}, nil
		}
		key := model.Key{Namespace: r.Namespace, Name: r.Name}
		after, err := loop.Reconcile(ctx, key)
		if ctx.Err() != nil {
			// The process ends: what was cut short is no error, and the next
			// process does it.
			return reconcile.Result{}, nil //nolint:nilerr // see above
		}
		if errors.Is(err, ErrMovedOn) {
			c.options.Log.DebugContext(ctx, "read again after a change", slog.String("service", key.String()), slog.Any("error", err))
			return reconcile.Result{RequeueAfter: firstRetry}, nil
		}
		return reconcile.Result{RequeueAfter: after}, err
	})
}

func serviceOfSlice(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[discoveryv1.LabelServiceName]
	if name == "" {
		return nil
	}
	return []reconcile.Request{request(o.GetNamespace(), name)}
}

func serviceOfRecord(_ context.Context, o client.Object) []reconcile.Request {
	record, ok := o.(*v1alpha1.ServiceRecord)
	if !ok {
		return nil
	}
	return []reconcile.Request{request(record.Spec.ServiceRef.Namespace, record.Spec.ServiceRef.Name)}
}

func (c *Client) allServices(ctx context.Context, _ client.Object) []reconcile.Request {
	return c.requests(ctx)
}

func (c *Client) servicesOfNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return c.requests(ctx, client.InNamespace(o.GetName()))
}

func (c *Client) requests(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	var list corev1.ServiceList
	if err := c.client.List(ctx, &list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		c.options.Log.ErrorContext(ctx, "listing services", slog.Any("error", err))
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Spec.Type == corev1.ServiceTypeLoadBalancer {
			out = append(out, request(list.Items[i].Namespace, list.Items[i].Name))
		}
	}
	return out
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}
}

// nodeChanges passes the changes of a Node that bear on membership, which are
// more than upstream looks at, and not its heartbeats.
func nodeChanges() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, okAfter := e.ObjectNew.(*corev1.Node)
		if !ok || !okAfter {
			return false
		}
		return !maps.Equal(before.Labels, after.Labels) ||
			!slices.Equal(before.Status.Addresses, after.Status.Addresses) ||
			!slices.EqualFunc(before.Spec.Taints, after.Spec.Taints, sameTaint) ||
			before.Spec.ProviderID != after.Spec.ProviderID ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil)
	}}
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Effect == b.Effect && a.Value == b.Value
}

// changes feeds keys from outside into the queue.
func changes(keys <-chan model.Key) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go func() {
			for {
				select {
				case key := <-keys:
					queue.Add(request(key.Namespace, key.Name))
				case <-ctx.Done():
					return
				}
			}
		}()
		return nil
	})
}

// NewChanges returns a channel for Loop.Changes that takes a burst of keys.
func NewChanges() chan model.Key { return make(chan model.Key, changesBacklog) }

// Now returns the API's form of a time.
func Now(t time.Time) metav1.Time { return metav1.NewTime(t) }
