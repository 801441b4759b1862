package controller

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/ipam"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// addressBook is address management shared by all workers.
type addressBook struct {
	mu    sync.Mutex
	table *ipam.Table
	// waiters have no address, or not the one they asked for.
	waiters map[model.Key]bool
	// changed wakes the expiry task.
	changed chan struct{}
}

func newAddressBook(pools []ipam.Pool) *addressBook {
	return &addressBook{table: ipam.NewTable(pools, nil), waiters: map[model.Key]bool{}, changed: make(chan struct{}, 1)}
}

func (b *addressBook) restore(holdings []ipam.Holding, reservations []ipam.Reservation) []ipam.Conflict {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range holdings {
		b.table.Restore(h)
	}
	for _, r := range reservations {
		b.table.Reserve(r)
	}
	b.wake()
	return b.table.Conflicts()
}

// assignment is a verdict with what the owner holds after it, and whether that
// differs from before.
type assignment struct {
	ipam.Verdict
	holding ipam.Holding
	moved   bool
}

func (b *addressBook) assign(r ipam.Request, delay time.Duration, now time.Time) assignment {
	r.Delay = delay
	b.mu.Lock()
	defer b.mu.Unlock()
	before, had := b.table.Holding(r.Owner)
	a := assignment{Verdict: b.table.Assign(r, now)}
	a.holding, _ = b.table.Holding(r.Owner)
	a.moved = had && !sameHolding(before, a.holding)
	if len(a.Reserved) > 0 {
		b.wake()
	}
	return a
}

func sameHolding(a, b ipam.Holding) bool {
	return slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Ports, b.Ports) && a.Share == b.Share
}

func (b *addressBook) release(owner model.Key, now time.Time, delay time.Duration) []ipam.Reservation {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiters, owner)
	reserved := b.table.Release(owner, now, delay)
	if len(reserved) > 0 {
		b.wake()
	}
	return reserved
}

// wait notes whether an owner would profit from another address becoming free.
func (b *addressBook) wait(owner model.Key, waits bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if waits {
		b.waiters[owner] = true
	} else {
		delete(b.waiters, owner)
	}
}

func (b *addressBook) waiting() []model.Key {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Keys(b.waiters), model.Key.Compare)
}

func (b *addressBook) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *addressBook) expire(now time.Time) (ended []ipam.Reservation, next time.Time, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ended = b.table.Expire(now)
	next, more = b.table.NextExpiry()
	return ended, next, more
}

// expiryRetry is how long a reservation that could not be deleted waits for
// the next attempt.
const expiryRetry = 5 * time.Second

// ExpireReservations ends reservations when their time is over and has those
// looked at that wait for an address. It runs until ctx ends.
func (c *Controller) ExpireReservations(ctx context.Context) error {
	var open []ipam.Reservation
	for {
		ended, next, more := c.addresses.expire(c.Now())
		if len(ended) > 0 {
			c.enqueue(ctx, c.addresses.waiting())
		}
		open = append(open, ended...)
		wait := next.Sub(c.Now())
		if err := c.endReservations(ctx, open); err != nil {
			c.Log.Warn("deleting reservations that are over", slog.Any("error", err))
			wait, more = expiryRetry, true
		} else {
			open = nil
		}
		if c.sleep(ctx, wait, more) {
			return nil
		}
	}
}

// sleep waits for the time, if there is one, or for a new reservation. It
// reports whether ctx has ended.
func (c *Controller) sleep(ctx context.Context, wait time.Duration, timed bool) bool {
	var timer <-chan time.Time
	if timed {
		t := time.NewTimer(max(wait, time.Millisecond))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return true
	case <-c.addresses.changed:
	case <-timer:
	}
	return false
}

func (c *Controller) endReservations(ctx context.Context, ended []ipam.Reservation) error {
	for _, r := range ended {
		if err := c.Ledger.DeleteReservation(ctx, reservationName(r)); err != nil {
			return fmt.Errorf("ending a reservation: %w", err)
		}
	}
	return nil
}

func reservationName(r ipam.Reservation) string { return v1alpha1.ReservationName(r.Address) }
