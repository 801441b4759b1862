package controller

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-lb/fairlead/internal/ipam"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// addressBook is address management shared by all workers. What it decides is
// in force at once and written down later, so it keeps account of what is not
// written yet: a write that failed is made up for by whoever writes next.
type addressBook struct {
	mu    sync.Mutex
	table *ipam.Table
	// waiters have no address, or not the one they asked for, since when.
	waiters map[model.Key]time.Time
	// unwritten are the addresses whose reservation may be written down
	// otherwise than the table has it.
	unwritten map[netip.Addr]bool
	// claimed are the addresses, by the owner that took them up, whose
	// reservation stays written down until the owner's record has them.
	claimed map[model.Key][]netip.Addr
	// moved are owners that gave something up since their record was written.
	moved map[model.Key]bool
	// changed wakes the expiry task.
	changed chan struct{}
}

func newAddressBook(pools []ipam.Pool) *addressBook {
	return &addressBook{
		table:     ipam.NewTable(pools, nil),
		waiters:   map[model.Key]time.Time{},
		unwritten: map[netip.Addr]bool{},
		claimed:   map[model.Key][]netip.Addr{},
		moved:     map[model.Key]bool{},
		changed:   make(chan struct{}, 1),
	}
}

func (b *addressBook) restore(holdings []ipam.Holding, reservations []ipam.Reservation) []ipam.Conflict {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range holdings {
		b.table.Restore(h)
	}
	for _, r := range reservations {
		b.table.Reserve(r)
		// The table takes no reservation for an owner that has the address: one
		// that was written down just before a crash is to go.
		if !slices.Contains(b.table.Reserved(r.Address), r) {
			b.unwritten[r.Address] = true
		}
	}
	b.wake()
	return b.table.Conflicts()
}

// assignment is a verdict with what the owner holds after it.
type assignment struct {
	ipam.Verdict
	holding ipam.Holding
}

func (b *addressBook) assign(r ipam.Request, now time.Time) assignment {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, had := b.table.Holding(r.Owner)
	r.Asked = b.asked(r)
	a := assignment{Verdict: b.table.Assign(r, now)}
	a.holding, _ = b.table.Holding(r.Owner)
	if had && !sameHolding(before, a.holding) {
		b.moved[r.Owner] = true
	}
	for _, e := range a.Ended {
		b.claimed[r.Owner] = append(b.claimed[r.Owner], e.Address)
	}
	b.reserved(a.Reserved)
	return a
}

// preview returns what assign would, and leaves everything as it is.
func (b *addressBook) preview(r ipam.Request, now time.Time) assignment {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, had := b.table.Holding(r.Owner)
	r.Asked = b.asked(r)
	a := assignment{Verdict: b.table.Assign(r, now)}
	a.holding, _ = b.table.Holding(r.Owner)
	b.table.Release(r.Owner, now, 0)
	if had {
		b.table.Restore(before)
	}
	for _, e := range a.Ended {
		b.table.Reserve(e)
	}
	return a
}

func sameHolding(a, b ipam.Holding) bool {
	return slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Ports, b.Ports) && a.Share == b.Share
}

// recorded notes that an owner's record has what the owner holds. It reports
// whether the owner gave something up that others may wait for.
func (b *addressBook) recorded(owner model.Key) (moved bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	moved = b.moved[owner]
	b.close(owner)
	return moved
}

// close ends the account of an owner's move.
func (b *addressBook) close(owner model.Key) {
	for _, a := range b.claimed[owner] {
		b.unwritten[a] = true
	}
	delete(b.claimed, owner)
	delete(b.moved, owner)
}

// reserved notes new reservations.
func (b *addressBook) reserved(made []ipam.Reservation) {
	for _, r := range made {
		b.unwritten[r.Address] = true
	}
	if len(made) > 0 {
		b.wake()
	}
}

func (b *addressBook) release(owner model.Key, now time.Time, delay time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiters, owner)
	b.close(owner)
	b.reserved(b.table.Release(owner, now, delay))
}

// holds returns the addresses that an owner has.
func (b *addressBook) holds(owner model.Key) []netip.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, _ := b.table.Holding(owner)
	return h.Addresses
}

// wait notes whether an owner would profit from another address becoming free.
func (b *addressBook) wait(owner model.Key, waits bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !waits {
		delete(b.waiters, owner)
	} else if _, already := b.waiters[owner]; !already {
		b.waiters[owner] = now
	}
}

// asked is since when an owner is known to ask for an address: an object may
// have been created at the end of the second that it tells, so whoever was not
// seen waiting before counts from there.
func (b *addressBook) asked(r ipam.Request) time.Time {
	latest := r.Created.Add(time.Second)
	if since, ok := b.waiters[r.Owner]; ok && since.Before(latest) {
		return since
	}
	return latest
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

// expire ends what is over. It reports whether anything was, and when the next
// reservation ends, if there is one.
func (b *addressBook) expire(now time.Time) (ended bool, next time.Time, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	over := b.table.Expire(now)
	for _, r := range over {
		b.unwritten[r.Address] = true
	}
	next, more = b.table.NextExpiry()
	return len(over) > 0, next, more
}

// unwrittenNow returns the addresses whose reservations are to be written.
func (b *addressBook) unwrittenNow() []netip.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.SortedFunc(maps.Keys(b.unwritten), netip.Addr.Compare)
}

// take returns the reservation to be written down for an address, if any, and
// counts it as written. Of several, which sharers leave behind, it is the one
// that ends last: there is one resource an address.
func (b *addressBook) take(a netip.Addr) (r ipam.Reservation, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.unwritten, a)
	all := b.table.Reserved(a)
	if len(all) == 0 {
		return ipam.Reservation{}, false
	}
	return slices.MaxFunc(all, func(x, y ipam.Reservation) int {
		return cmp.Or(x.Until.Compare(y.Until), x.For.Compare(y.For))
	}), true
}

// putBack counts an address as unwritten again.
func (b *addressBook) putBack(a netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unwritten[a] = true
}
