// Package kubetest is a cluster in memory, as far as the controller sees one:
// it implements the controller's Reader, Writer and Ledger with those habits of
// the API server that an order of writes has to reckon with (resourceVersions,
// uids, finalizers and deletion, ownership of applied fields, a status that is
// wiped with the type). It counts and can fail every write, prints its state as
// text, and never decides by chance or by the clock of the machine.
package kubetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// Kind is a kind of write that the controller makes.
type Kind string

// The kinds of writes.
const (
	Finalizers        Kind = "finalizers"
	Status            Kind = "status"
	PutRecord         Kind = "put record"
	DeleteRecord      Kind = "delete record"
	PutReservation    Kind = "put reservation"
	DeleteReservation Kind = "delete reservation"
)

// Write is one write of the controller. Name is "namespace/name" of a Service,
// or the name of a record or reservation.
type Write struct {
	Kind Kind
	Name string
}

// String returns "status default/web".
func (w Write) String() string { return string(w.Kind) + " " + w.Name }

// Cluster is a cluster in memory. All methods may be called concurrently.
type Cluster struct {
	now func() time.Time

	mu           sync.Mutex
	version      int
	uids         int
	recordUIDs   int
	services     map[model.Key]*service
	slices       map[model.Key][]discoveryv1.EndpointSlice
	nodes        []corev1.Node
	deselected   map[model.Key]bool
	records      map[string]*v1alpha1.ServiceRecord
	reservations map[string]*v1alpha1.AddressReservation

	writes []Write
	events []string
	before func(Write) error
	after  func(Write) error
}

// service is a Service with what managedFields says about our applies.
type service struct {
	corev1.Service
	// annotations and conditions are those that we own.
	annotations []string
	conditions  []string
	// ingress is the field manager that owns the ingress.
	ingress string
}

// New returns an empty cluster with a clock.
func New(now func() time.Time) *Cluster {
	return &Cluster{
		now:          now,
		services:     map[model.Key]*service{},
		slices:       map[model.Key][]discoveryv1.EndpointSlice{},
		deselected:   map[model.Key]bool{},
		records:      map[string]*v1alpha1.ServiceRecord{},
		reservations: map[string]*v1alpha1.AddressReservation{},
	}
}

// SetHooks sets what is called before and after each write takes effect, nil:
// nothing. An error of before fails the write without effect; one of after
// loses the answer of a write that took effect. Hooks may panic.
func (c *Cluster) SetHooks(before, after func(Write) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before, c.after = before, after
}

// Writes returns the controller's writes so far, in their order, also those
// that were refused.
func (c *Cluster) Writes() []Write {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

// Events returns what was told so far: "Normal EnsuredLoadBalancer default/web: …".
func (c *Cluster) Events() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

// Keys returns the keys of all Services, and of those that have a record, sorted.
func (c *Cluster) Keys() []model.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := map[model.Key]bool{}
	for k := range c.services {
		keys[k] = true
	}
	for _, r := range c.records {
		keys[model.Key{Namespace: r.Spec.ServiceRef.Namespace, Name: r.Spec.ServiceRef.Name}] = true
	}
	return slices.SortedFunc(maps.Keys(keys), model.Key.Compare)
}

// Service returns a copy of a Service, or nil.
func (c *Cluster) Service(key model.Key) *corev1.Service {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.copyOf(key)
}

func (c *Cluster) copyOf(key model.Key) *corev1.Service {
	s := c.services[key]
	if s == nil {
		return nil
	}
	out := s.DeepCopy()
	out.ManagedFields = s.managedFields()
	return out
}

// errDeleting is the API's answer to the owner of an object that goes.
var errDeleting = errors.New("the object is being deleted")

// Put creates a Service, or replaces the spec, labels and annotations of one,
// as a user does with a manifest. Annotations that the controller owns stay.
func (c *Cluster) Put(want *corev1.Service) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := kube.KeyOf(want)
	have := c.services[key]
	if have == nil {
		c.create(key, want)
		return nil
	}
	if have.DeletionTimestamp != nil {
		return fmt.Errorf("changing service %s: %w", key, errDeleting)
	}
	if err := checkClass(&have.Service, want); err != nil {
		return fmt.Errorf("changing service %s: %w", key, err)
	}
	have.replace(want)
	c.touch(&have.ObjectMeta)
	return nil
}

// checkClass: the class of a load balancer is immutable (core/v1).
func checkClass(have, want *corev1.Service) error {
	const lb = corev1.ServiceTypeLoadBalancer
	if have.Spec.Type != lb || want.Spec.Type != lb {
		return nil
	}
	a, b := have.Spec.LoadBalancerClass, want.Spec.LoadBalancerClass
	if (a == nil) != (b == nil) || (a != nil && *a != *b) {
		return errors.New("spec.loadBalancerClass may not change once set")
	}
	return nil
}

func (c *Cluster) create(key model.Key, want *corev1.Service) {
	c.uids++
	s := &service{Service: *want.DeepCopy()}
	s.UID = types.UID(fmt.Sprintf("uid-%d", c.uids))
	s.CreationTimestamp = metav1.NewTime(c.now())
	s.Finalizers, s.DeletionTimestamp, s.Status = nil, nil, corev1.ServiceStatus{}
	c.touch(&s.ObjectMeta)
	c.services[key] = s
}

func (s *service) replace(want *corev1.Service) {
	kept := map[string]string{}
	for _, k := range s.annotations {
		kept[k] = s.Annotations[k]
	}
	s.Labels, s.Annotations = maps.Clone(want.Labels), maps.Clone(want.Annotations)
	if s.Annotations == nil && len(kept) > 0 {
		s.Annotations = map[string]string{}
	}
	maps.Copy(s.Annotations, kept)
	want.Spec.DeepCopyInto(&s.Spec)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		// The API server wipes what only a load balancer has.
		s.Spec.LoadBalancerClass = nil
		s.Status.LoadBalancer, s.ingress = corev1.LoadBalancerStatus{}, ""
	}
}

// Delete deletes a Service, or marks it as being deleted while it has finalizers.
func (c *Cluster) Delete(key model.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.services[key]
	if s == nil || s.DeletionTimestamp != nil {
		return
	}
	if len(s.Finalizers) == 0 {
		delete(c.services, key)
		return
	}
	at := metav1.NewTime(c.now())
	s.DeletionTimestamp = &at
	c.touch(&s.ObjectMeta)
}

// Change edits a Service in a way that no manifest can, such as by taking a
// finalizer off. The Service must exist.
func (c *Cluster) Change(key model.Key, edit func(*corev1.Service)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.services[key]
	edit(&s.Service)
	c.touch(&s.ObjectMeta)
	c.finish(key, s)
}

// PublishAs writes the ingress of a Service as another controller does.
func (c *Cluster) PublishAs(manager string, key model.Key, ingress ...corev1.LoadBalancerIngress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.services[key]
	s.Status.LoadBalancer.Ingress, s.ingress = ingress, manager
	c.touch(&s.ObjectMeta)
}

// SetSlices replaces the EndpointSlices of a Service.
func (c *Cluster) SetSlices(key model.Key, list ...discoveryv1.EndpointSlice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slices[key] = list
}

// SetNodes replaces all nodes.
func (c *Cluster) SetNodes(nodes ...corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = nodes
}

// Select says whether the configured selectors take a Service; they do unless
// told otherwise.
func (c *Cluster) Select(key model.Key, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deselected[key] = !yes
}

// DropRecord loses a record, as an operator may by mistake.
func (c *Cluster) DropRecord(key model.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.records, v1alpha1.RecordName(key.Namespace, key.Name))
}

// touch gives an object a new resourceVersion. The caller holds the lock.
func (c *Cluster) touch(m *metav1.ObjectMeta) {
	c.version++
	m.ResourceVersion = fmt.Sprint(c.version)
}

// finish lets an object go whose last finalizer is gone. The caller holds the lock.
func (c *Cluster) finish(key model.Key, s *service) {
	if s.DeletionTimestamp != nil && len(s.Finalizers) == 0 {
		delete(c.services, key)
	}
}
