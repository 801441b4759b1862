// Package controller is the loop over the cluster's Services: it reads a view,
// lets the pure packages decide (translate, ipam, plan, status), and has the
// decision carried out by a provider and written down by kube. It holds no rule
// about load balancing itself; what it owns is the order of reads and writes,
// which is what keeps a crash at any line from leaking or dropping anything:
// finalizer, record, backend, status on the way up; backend, reservation,
// record, finalizer on the way down.
package controller

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/ipam"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/provider"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// Reader is what the controller reads of the cluster.
type Reader interface {
	View(ctx context.Context, key model.Key) (kube.View, error)
	Services(ctx context.Context, finalizer string) ([]kube.View, error)
	Records(ctx context.Context) ([]v1alpha1.ServiceRecord, error)
	Reservations(ctx context.Context) ([]v1alpha1.AddressReservation, error)
}

// Writer is what the controller writes to Services.
type Writer interface {
	SetFinalizers(ctx context.Context, svc *corev1.Service, finalizers []string) error
	ApplyStatus(ctx context.Context, svc *corev1.Service, said kube.Said, now time.Time) (bool, error)
	ClearStatus(ctx context.Context, svc *corev1.Service) error
	Tell(svc *corev1.Service, e kube.Event, now time.Time)
}

// Ledger is what the controller remembers in resources of its own.
type Ledger interface {
	PutRecord(ctx context.Context, have *v1alpha1.ServiceRecord, want v1alpha1.ServiceRecordSpec) error
	DeleteRecord(ctx context.Context, record *v1alpha1.ServiceRecord) error
	PutReservation(ctx context.Context, name string, spec v1alpha1.AddressReservationSpec) error
	DeleteReservation(ctx context.Context, name string) error
}

// Config is what a controller works with.
type Config struct {
	Log    *slog.Logger
	Reader Reader
	Writer Writer
	Ledger Ledger
	// Providers are those in service, by name.
	Providers map[string]provider.Provider
	// Default is the provider of Services without a class; empty: none.
	Default string
	// Observe: read, plan and report, and write nothing else.
	Observe bool
	// Pools are what addresses are given out of, to providers that do not
	// choose addresses themselves.
	Pools []ipam.Pool
	// ReleaseDelay is how long a released address is held for its owner.
	ReleaseDelay time.Duration
	// Resync is how often a Service is looked at when nothing changes.
	Resync time.Duration
	// Now is the clock.
	Now func() time.Time
	// Standby tells that everything is read and another process leads.
	Standby func() bool
	// Changes takes keys that have to be looked at again.
	Changes chan<- model.Key
}

// Controller brings Services to their wanted state. Reconcile may be called
// concurrently for different keys.
type Controller struct {
	Config
	addresses *addressBook
	// writing is held by who writes reservations.
	writing sync.Mutex

	mu      sync.Mutex
	started bool
	pending map[model.Key]bool
	// leftover are keys that a backend held at the start and that no pass has
	// looked at yet.
	leftover map[model.Key]bool
	memory   map[model.Key]memory
}

// memory is what is remembered of a key between two passes and may be lost.
type memory struct {
	rivalry rivalry
	warned  string
	warnAt  time.Time
}

// New returns a controller; nothing runs until Start.
func New(c Config) *Controller {
	return &Controller{
		Config:    c,
		addresses: newAddressBook(c.Pools),
		pending:   map[model.Key]bool{},
		leftover:  map[model.Key]bool{},
		memory:    map[model.Key]memory{},
	}
}

// Start takes over what was assigned before from records, reservations and
// statuses. It must return before the first Reconcile.
func (c *Controller) Start(ctx context.Context) error {
	records, err := c.Reader.Records(ctx)
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	reservations, err := c.Reader.Reservations(ctx)
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	views, err := c.Reader.Services(ctx, translate.Finalizer)
	if err != nil {
		return fmt.Errorf("starting: %w", err)
	}
	for _, conflict := range c.addresses.restore(holdings(records, views), reservationsOf(reservations)) {
		c.Log.WarnContext(ctx, "restored two owners of one address",
			slog.String("address", conflict.Address.String()), slog.String("reason", conflict.Message))
	}
	c.expect(views)
	return c.enqueueLeftovers(ctx, records)
}

// expect notes the Services whose first pass makes the controller ready.
func (c *Controller) expect(views []kube.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, v := range views {
		if translate.ClaimOf(v.Service, c.scope(v)).Verdict != translate.Ignore {
			c.pending[kube.KeyOf(v.Service)] = true
		}
	}
	c.started = true
}

// enqueueLeftovers looks for what may have no Service any more: records, and
// balancers that a backend holds.
func (c *Controller) enqueueLeftovers(ctx context.Context, records []v1alpha1.ServiceRecord) error {
	keys := map[model.Key]bool{}
	for _, r := range records {
		keys[model.Key{Namespace: r.Spec.ServiceRef.Namespace, Name: r.Spec.ServiceRef.Name}] = true
	}
	for _, p := range c.Providers {
		held, err := p.List(ctx)
		if err != nil {
			return fmt.Errorf("listing balancers of provider %s: %w", p.Traits().Name, err)
		}
		for _, k := range held {
			keys[k] = true
			c.note(k)
		}
	}
	go c.enqueue(ctx, slices.SortedFunc(maps.Keys(keys), model.Key.Compare))
	return nil
}

// note remembers that a backend held something for a key at the start.
func (c *Controller) note(key model.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leftover[key] = true
}

func (c *Controller) enqueue(ctx context.Context, keys []model.Key) {
	for _, k := range keys {
		select {
		case c.Changes <- k:
		case <-ctx.Done():
			return
		}
	}
}

// Ready returns an error until every Service that was there at the start has
// been looked at once. One that stands by for a leader is ready to take over.
func (c *Controller) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.started {
		if c.Standby() {
			return nil
		}
		return errors.New("not started: waiting for the first lists")
	}
	if n := len(c.pending); n > 0 {
		return fmt.Errorf("%d services have not been looked at yet", n)
	}
	return nil
}

// Reconcile brings one key to its wanted state. It returns when to come back
// at the latest; zero: not before something changes.
func (c *Controller) Reconcile(ctx context.Context, key model.Key) (time.Duration, error) {
	view, err := c.Reader.View(ctx, key)
	if err != nil {
		return 0, err
	}
	defer c.looked(key)
	claim := translate.ClaimOf(view.Service, c.scope(view))
	switch claim.Verdict {
	case translate.Serve:
		return c.serve(ctx, key, view, claim)
	case translate.Clean:
		return 0, c.clean(ctx, key, view)
	default:
		return 0, c.ignore(ctx, key, view.Service)
	}
}

func (c *Controller) looked(key model.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, key)
}

func (c *Controller) scope(v kube.View) translate.Scope {
	s := translate.Scope{
		Providers: slices.Sorted(maps.Keys(c.Providers)),
		Default:   c.Default,
		Selected:  v.Selected,
	}
	if v.Record != nil {
		s.Recorded, s.RecordedProvider = true, v.Record.Spec.Provider
	}
	return s
}

// recall returns what is remembered of a key.
func (c *Controller) recall(key model.Key) memory {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory[key]
}

func (c *Controller) remember(key model.Key, m memory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory[key] = m
}

func (c *Controller) forget(key model.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.memory, key)
}

// nextLook is when a key is looked at again if nothing changes before: at the
// resync, or when the ingress need not be left to a rival any longer.
func (c *Controller) nextLook(key model.Key) time.Duration {
	after := c.resyncAfter(key)
	if truce := c.recall(key).rivalry.until.Sub(c.Now()); truce > 0 && (after == 0 || truce < after) {
		return truce
	}
	return after
}

// resyncAfter spreads the periodic passes over the second half of the period,
// each key at a place of its own.
func (c *Controller) resyncAfter(key model.Key) time.Duration {
	half := c.Resync / 2
	if half <= 0 {
		return c.Resync
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(key.String()))
	return half + time.Duration(h.Sum64()%uint64(half))
}
