package controller

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
)

// expiryRetry is how long a reservation that could not be written waits for
// the next attempt.
const expiryRetry = 5 * time.Second

// ExpireReservations ends reservations when their time is over and has those
// looked at that wait for an address. It runs until ctx ends.
func (c *Controller) ExpireReservations(ctx context.Context) error {
	for {
		wait, timed := c.expire(ctx)
		if c.sleep(ctx, wait, timed) {
			return nil
		}
	}
}

// expire ends what is over now. It returns how long to wait for the next one,
// if there is any.
func (c *Controller) expire(ctx context.Context) (wait time.Duration, timed bool) {
	now := c.Now()
	ended, next, timed := c.addresses.expire(now)
	if ended {
		c.enqueue(ctx, c.addresses.waiting())
	}
	wait = next.Sub(now)
	if err := c.writeReservations(ctx); err != nil && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "writing reservations", slog.Any("error", err))
		if !timed || wait > expiryRetry {
			wait, timed = expiryRetry, true
		}
	}
	return wait, timed
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

// writeReservations writes down every reservation that is not written down as
// it is. Only one caller writes at a time, so an older state never follows a
// newer one. What fails is left for the next call, by whomever.
func (c *Controller) writeReservations(ctx context.Context) error {
	if c.Observe {
		return nil
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	for _, a := range c.addresses.unwrittenNow() {
		if err := c.writeReservation(ctx, a); err != nil {
			c.addresses.putBack(a)
			return fmt.Errorf("writing the reservation of %s: %w", a, err)
		}
	}
	return nil
}

func (c *Controller) writeReservation(ctx context.Context, a netip.Addr) error {
	r, reserved := c.addresses.take(a)
	if !reserved {
		return c.Ledger.DeleteReservation(ctx, v1alpha1.ReservationName(a))
	}
	return c.Ledger.PutReservation(ctx, v1alpha1.ReservationName(a), reservationSpec(r))
}
