package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// ErrNoCluster says that no kubeconfig names a cluster, and that this process
// does not run in one.
var ErrNoCluster = errors.New("no cluster is configured")

// UserOptions say which cluster a person means, as kubectl's flags do. What is
// empty is as the kubeconfig says (KUBECONFIG, then ~/.kube/config).
type UserOptions struct {
	Kubeconfig string
	Context    string
	Namespace  string
	// SystemNamespace is Fairlead's own: records, reservations and the lease.
	SystemNamespace string
	// Timeout bounds a single request; zero: nothing does.
	Timeout time.Duration
}

// User reads and writes a cluster for one person's command: uncached, and with
// that person's rights. Its methods may be called concurrently. Errors wrap
// what the API server answered (k8s.io/apimachinery/pkg/api/errors).
type User struct {
	client    client.WithWatch
	namespace string
	system    string
	timeout   time.Duration
}

// NewUser reads the kubeconfig and prepares a client; the cluster is not asked
// yet. The error wraps ErrNoCluster when there is no kubeconfig at all.
func NewUser(o UserOptions) (*User, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.Context.Namespace = o.Namespace
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("reading the kubeconfig: %w", ErrNoCluster)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the namespace of the kubeconfig: %w", err)
	}
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	config.UserAgent = FieldManager
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("preparing the Kubernetes client: %w", err)
	}
	return newUser(c, o, namespace), nil
}

func newUser(c client.WithWatch, o UserOptions, namespace string) *User {
	return &User{client: c, namespace: namespace, system: o.SystemNamespace, timeout: o.Timeout}
}

// bound limits one request.
func (u *User) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if u.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, u.timeout)
}

// Namespace is the one that names without a namespace are in.
func (u *User) Namespace() string { return u.namespace }

// Service returns a Service, or nil when there is none.
func (u *User) Service(ctx context.Context, key model.Key) (*corev1.Service, error) {
	var svc corev1.Service
	found, err := u.get(ctx, "service", key, &svc)
	if err != nil || !found {
		return nil, err
	}
	return &svc, nil
}

// get reads one object, and tells whether it is there.
func (u *User) get(ctx context.Context, what string, key model.Key, into client.Object) (bool, error) {
	ctx, cancel := u.bound(ctx)
	defer cancel()
	err := u.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", what, key, err)
	}
	return true, nil
}

// Services returns the Services of a namespace, or of all when it is empty,
// that a label selector takes, sorted by key.
func (u *User) Services(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Service, error) {
	var list corev1.ServiceList
	if err := u.list(ctx, "services", &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Service) int { return compareNames(&a, &b) })
	return list.Items, nil
}

func (u *User) list(ctx context.Context, what string, into client.ObjectList, options ...client.ListOption) error {
	ctx, cancel := u.bound(ctx)
	defer cancel()
	if err := u.client.List(ctx, into, options...); err != nil {
		return fmt.Errorf("listing %s: %w", what, err)
	}
	return nil
}

// Slices returns the EndpointSlices of a Service, sorted by name.
func (u *User) Slices(ctx context.Context, key model.Key) ([]discoveryv1.EndpointSlice, error) {
	var list discoveryv1.EndpointSliceList
	of := client.MatchingLabels{discoveryv1.LabelServiceName: key.Name}
	if err := u.list(ctx, "endpoint slices", &list, client.InNamespace(key.Namespace), of); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b discoveryv1.EndpointSlice) int { return compareNames(&a, &b) })
	return list.Items, nil
}

// Nodes returns every node, sorted by name.
func (u *User) Nodes(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := u.list(ctx, "nodes", &list); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return compareNames(&a, &b) })
	return list.Items, nil
}

// Events returns what Fairlead told about a Service, the latest first.
func (u *User) Events(ctx context.Context, svc *corev1.Service) ([]corev1.Event, error) {
	var list corev1.EventList
	about := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("involvedObject.uid", string(svc.UID))}
	if err := u.list(ctx, "events", &list, client.InNamespace(svc.Namespace), about); err != nil {
		return nil, err
	}
	ours := slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return e.Source.Component != FieldManager })
	slices.SortFunc(ours, func(a, b corev1.Event) int {
		if c := b.LastTimestamp.Compare(a.LastTimestamp.Time); c != 0 {
			return c
		}
		return compareNames(&a, &b)
	})
	return ours, nil
}

// Record returns the record of a Service, or nil when there is none.
func (u *User) Record(ctx context.Context, key model.Key) (*v1alpha1.ServiceRecord, error) {
	var r v1alpha1.ServiceRecord
	name := model.Key{Namespace: u.system, Name: v1alpha1.RecordName(key.Namespace, key.Name)}
	found, err := u.get(ctx, "record", name, &r)
	if err != nil || !found {
		return nil, err
	}
	return &r, nil
}

// Records returns every record, sorted by name.
func (u *User) Records(ctx context.Context) ([]v1alpha1.ServiceRecord, error) {
	var list v1alpha1.ServiceRecordList
	if err := u.list(ctx, "service records", &list, client.InNamespace(u.system)); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.ServiceRecord) int { return compareNames(&a, &b) })
	return list.Items, nil
}

// Reservations returns every address reservation, sorted by name.
func (u *User) Reservations(ctx context.Context) ([]v1alpha1.AddressReservation, error) {
	var list v1alpha1.AddressReservationList
	if err := u.list(ctx, "address reservations", &list, client.InNamespace(u.system)); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.AddressReservation) int { return compareNames(&a, &b) })
	return list.Items, nil
}

// IsUnknownKind tells whether an error says that the cluster does not have a
// kind of resource, such as one whose CRD is not installed.
func IsUnknownKind(err error) bool { return meta.IsNoMatchError(err) }
