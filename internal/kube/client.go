// Package kube is the only place that talks to the Kubernetes API: views of the
// cluster come in, patches go out. It decides nothing about load balancing. What
// it owns is how the API is read and written without harm: cached reads that
// have seen our own writes, finalizers by merge patch with resourceVersion,
// status by server-side apply with uid, and events that are renewed instead of
// multiplied.
package kube

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
)

// FieldManager names us in managedFields, whatever version writes.
const FieldManager = "fairlead"

// LeaseName is the name of the leader election Lease.
const LeaseName = "fairlead-controller"

// Options is how to reach the cluster and how to run against it.
type Options struct {
	Config *rest.Config
	Log    *slog.Logger
	// Namespace is Fairlead's own: records, reservations and the lease.
	Namespace string
	// ServiceSelector and NamespaceSelector limit which Services are served;
	// nil takes all.
	ServiceSelector   labels.Selector
	NamespaceSelector labels.Selector
	// MetricsAddress and HealthAddress are bind addresses; "0" disables.
	MetricsAddress string
	// MetricsSecure serves metrics by HTTPS, to whom the API server authorizes.
	MetricsSecure bool
	HealthAddress string
	LeaderElection
	// ShutdownTimeout bounds a graceful stop.
	ShutdownTimeout time.Duration
}

// LeaderElection is the timing of the Lease (coordination.k8s.io/v1).
type LeaderElection struct {
	Elect bool
	// Identity names this process in the Lease. Whoever comes back with the
	// same one, after the API server was away, need not wait for the end of
	// its own old lease.
	Identity      string
	LeaseName     string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// Client reads and writes one cluster. Its methods may be called concurrently.
type Client struct {
	options Options
	manager manager.Manager
	client  client.Client
	events  *events
	waits   atomic.Bool
	// listed is closed when the first lists are in.
	listed chan struct{}
}

// Scheme returns a scheme that knows every type this program reads or writes.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("adding Kubernetes types: %w", err)
	}
	if err := v1alpha1.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("adding fairlead.dev types: %w", err)
	}
	return s, nil
}

// New prepares a client; nothing is read until Run.
func New(o Options) (*Client, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	ctrllog.SetLogger(logr.FromSlogHandler(libraryLog{o.Log.Handler()}))
	// Requests are bounded by the workers and by the API server's priority
	// and fairness, not by a token bucket in the client.
	config := rest.CopyConfig(o.Config)
	config.QPS = -1
	config.UserAgent = FieldManager + "-controller"
	options := managerOptions(o, scheme)
	if options.LeaderElectionResourceLockInterface, err = newLock(o, config); err != nil {
		return nil, err
	}
	m, err := manager.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("preparing the Kubernetes client: %w", err)
	}
	c := &Client{options: o, manager: m, client: m.GetClient(), listed: make(chan struct{})}
	c.events = newEvents(c.client, o.Log)
	return c, nil
}

// newLock returns the Lease under our own identity, or nil without election.
func newLock(o Options, config *rest.Config) (resourcelock.Interface, error) {
	if !o.Elect {
		return nil, nil
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.Namespace, o.LeaseName,
		resourcelock.ResourceLockConfig{Identity: o.Identity}, config, o.RenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("preparing the lease: %w", err)
	}
	return lock, nil
}

func managerOptions(o Options, scheme *runtime.Scheme) manager.Options {
	consistent := true
	return manager.Options{
		Scheme: scheme,
		Logger: logr.FromSlogHandler(libraryLog{o.Log.Handler()}),
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.ServiceRecord{}:      {Namespaces: map[string]cache.Config{o.Namespace: {}}},
			&v1alpha1.AddressReservation{}: {Namespaces: map[string]cache.Config{o.Namespace: {}}},
			&corev1.Node{}:                 {Transform: trimNode},
			&discoveryv1.EndpointSlice{}:   {Transform: cache.TransformStripManagedFields()},
		}},
		Client:                        client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: &consistent}},
		Metrics:                       metricsOptions(o),
		HealthProbeBindAddress:        o.HealthAddress,
		LeaderElection:                o.Elect,
		LeaderElectionID:              o.LeaseName,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.LeaseDuration,
		RenewDeadline:                 &o.RenewDeadline,
		RetryPeriod:                   &o.RetryPeriod,
		GracefulShutdownTimeout:       &o.ShutdownTimeout,
	}
}

func metricsOptions(o Options) metricsserver.Options {
	m := metricsserver.Options{BindAddress: o.MetricsAddress, SecureServing: o.MetricsSecure}
	if o.MetricsSecure {
		m.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return m
}

// trimNode drops what nobody here reads of a Node, such as its image list.
func trimNode(in any) (any, error) {
	if n, ok := in.(*corev1.Node); ok {
		n.ManagedFields = nil
		n.Status.Images = nil
		n.Status.Conditions = nil
		n.Status.VolumesAttached = nil
		n.Status.VolumesInUse = nil
	}
	return in, nil
}

// AddReadyCheck makes a check part of /readyz.
func (c *Client) AddReadyCheck(name string, check func() error) error {
	err := c.manager.AddReadyzCheck(name, func(*http.Request) error { return check() })
	if err != nil {
		return fmt.Errorf("adding readiness check %s: %w", name, err)
	}
	return nil
}

// waitForCache blocks until the first lists are in.
func (c *Client) waitForCache(ctx context.Context) error {
	if !c.manager.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("waiting for the first lists: %w", ctx.Err())
	}
	return nil
}
