package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// Table is the state of address management. It is not safe for concurrent use.
//
// Within a pool the lowest free address of the first range that has one is
// given out. Nothing but holdings and reservations is remembered: an address
// is kept from re-use for as long as its reservation lasts, and one whose
// reservation is over is as good as new. So nothing is lost over a restart
// that restores both.
type Table struct {
	views    []*view // in the order of assignment
	index    index
	excluded exclusions

	holdings map[model.Key]Holding
	slots    map[netip.Addr]*slot
	groups   map[groupKey]*group

	// reserved are the addresses reserved for an owner, sorted.
	reserved map[model.Key][]netip.Addr
	ends     heap[Reservation]
	// ended are reservations that are over but not yet told by Expire.
	ended []Reservation

	// steps counts the addresses looked at in searches.
	steps int
}

// NewTable returns a table in which nothing is held. Addresses within excluded
// are never given out: those of nodes and of the cluster's own ranges.
func NewTable(pools []Pool, excluded []netip.Prefix) *Table {
	t := &Table{
		excluded: newExclusions(excluded),
		holdings: map[model.Key]Holding{},
		slots:    map[netip.Addr]*slot{},
		groups:   map[groupKey]*group{},
		reserved: map[model.Key][]netip.Addr{},
		ends:     heap[Reservation]{less: func(a, b Reservation) bool { return a.compareEnd(b) < 0 }},
	}
	t.SetPools(pools)
	return t
}

// SetPools replaces the pools. What is held stays held, also outside of every
// pool. The pools must pass CheckPools; of those that do not, ranges that are
// none are left out, and addresses of overlapping ranges belong to the pool
// that comes first.
func (t *Table) SetPools(pools []Pool) {
	t.views = newViews(pools)
	t.index = newIndex(t.views)
	for _, a := range sortedAddrs(t.slots) {
		t.count(a, 1)
	}
}

// SetExcluded replaces the exclusions. What is held stays held.
func (t *Table) SetExcluded(excluded []netip.Prefix) {
	t.excluded = newExclusions(excluded)
	pools := make([]Pool, len(t.views))
	for i, v := range t.views {
		pools[i] = v.Pool
	}
	t.SetPools(pools)
}

// Restore takes over a holding unchanged, in place of what the owner held:
// also if no pool has its addresses, or another owner has them (Conflicts).
// The order of several calls does not matter. It ends the owner's own
// reservations of these addresses.
func (t *Table) Restore(h Holding) {
	h = h.normalize()
	if old, ok := t.holdings[h.Owner]; ok {
		t.unhold(old)
	}
	if len(h.Addresses) > 0 {
		t.hold(h)
	}
}

// Reserve takes over a reservation, in place of an earlier one of the same
// address for the same owner. It does nothing if that owner holds the address.
func (t *Table) Reserve(r Reservation) {
	r.Address = r.Address.Unmap()
	if slices.Contains(t.holdings[r.For].Addresses, r.Address) {
		return
	}
	t.unreserve(r.Address, r.For)
	t.change(r.Address, func(s *slot) {
		i, _ := s.findReservation(r.For)
		s.reserved = slices.Insert(s.reserved, i, r)
	})
	list := t.reserved[r.For]
	i, _ := slices.BinarySearchFunc(list, r.Address, netip.Addr.Compare)
	t.reserved[r.For] = slices.Insert(list, i, r.Address)
	t.ends.push(r)
}

// Release gives up everything an owner holds, and reserves it for the owner
// until now plus delay; with a delay of zero or less it is free at once. It
// returns the reservations made, sorted by address.
func (t *Table) Release(owner model.Key, now time.Time, delay time.Duration) []Reservation {
	h, ok := t.holdings[owner]
	if !ok {
		return nil
	}
	t.unhold(h)
	return t.reserveAll(h.Addresses, Reservation{For: owner, Since: now, Until: now.Add(delay)})
}

func (t *Table) reserveAll(addrs []netip.Addr, r Reservation) []Reservation {
	if !r.Until.After(r.Since) {
		return nil
	}
	var made []Reservation
	for _, a := range addrs {
		r.Address = a
		t.Reserve(r)
		made = append(made, r)
	}
	slices.SortFunc(made, Reservation.compare)
	return made
}

// Expire ends the reservations whose Until is not after now. It returns all
// that ended for this reason since it was last called, sorted by address, then
// owner: Assign ends them as well.
func (t *Table) Expire(now time.Time) []Reservation {
	t.expire(now)
	ended := t.ended
	t.ended = nil
	slices.SortFunc(ended, Reservation.compare)
	return ended
}

func (t *Table) expire(now time.Time) {
	for {
		r, ok := t.nextEnd()
		if !ok || r.Until.After(now) {
			return
		}
		t.unreserve(r.Address, r.For)
		t.ended = append(t.ended, r)
	}
}

// NextExpiry returns when the next reservation ends, and whether there is one.
func (t *Table) NextExpiry() (time.Time, bool) {
	r, ok := t.nextEnd()
	return r.Until, ok
}

// nextEnd returns the reservation that ends first, forgetting those that were
// ended or replaced otherwise.
func (t *Table) nextEnd() (Reservation, bool) {
	for {
		r, ok := t.ends.least()
		if !ok {
			return Reservation{}, false
		}
		if s := t.slots[r.Address]; s != nil {
			if current, ok := s.reservationOf(r.For); ok && current == r {
				return r, true
			}
		}
		t.ends.drop()
	}
}

// hold puts a holding in; the owner must hold nothing.
func (t *Table) hold(h Holding) {
	t.holdings[h.Owner] = h
	for _, a := range h.Addresses {
		t.unreserve(a, h.Owner)
		t.change(a, func(s *slot) {
			i, _ := slices.BinarySearchFunc(s.holders, h.Owner, model.Key.Compare)
			s.holders = slices.Insert(s.holders, i, h.Owner)
			s.terms[h.term()]++
			for _, p := range h.Ports {
				s.ports[p]++
			}
		})
		if h.Share.Key != "" {
			k := groupKey{h.Share, model.FamilyOf(a)}
			if t.groups[k] == nil {
				t.groups[k] = newGroup()
			}
			t.groups[k].join(a)
		}
	}
}

// unhold takes a holding out.
func (t *Table) unhold(h Holding) {
	delete(t.holdings, h.Owner)
	for _, a := range h.Addresses {
		t.leaveGroup(h.Share, a)
		t.change(a, func(s *slot) {
			if i, ok := slices.BinarySearchFunc(s.holders, h.Owner, model.Key.Compare); ok {
				s.holders = slices.Delete(s.holders, i, i+1)
			}
			decrement(s.terms, h.term())
			for _, p := range h.Ports {
				decrement(s.ports, p)
			}
			for rest := range s.terms {
				if g := t.groups[groupKey{rest.Share, model.FamilyOf(a)}]; g != nil {
					g.freed(a, h.Ports)
				}
			}
		})
	}
}

func (t *Table) leaveGroup(share Share, a netip.Addr) {
	k := groupKey{share, model.FamilyOf(a)}
	g := t.groups[k]
	if g == nil {
		return
	}
	g.leave(a)
	if len(g.addrs) == 0 {
		delete(t.groups, k)
	}
}

func decrement[K comparable](counts map[K]int, k K) {
	if counts[k]--; counts[k] == 0 {
		delete(counts, k)
	}
}

// unreserve ends an owner's reservation of an address, if there is one.
func (t *Table) unreserve(a netip.Addr, owner model.Key) {
	s := t.slots[a]
	if s == nil {
		return
	}
	i, ok := s.findReservation(owner)
	if !ok {
		return
	}
	t.change(a, func(s *slot) { s.reserved = slices.Delete(s.reserved, i, i+1) })
	list := t.reserved[owner]
	j, _ := slices.BinarySearchFunc(list, a, netip.Addr.Compare)
	if list = slices.Delete(list, j, j+1); len(list) == 0 {
		delete(t.reserved, owner)
		return
	}
	t.reserved[owner] = list
}

// change edits the slot of an address. It is the only place where an address
// becomes held, parked or free.
func (t *Table) change(a netip.Addr, edit func(*slot)) {
	s := t.slots[a]
	if s == nil {
		s = newSlot()
		t.slots[a] = s
	} else {
		t.count(a, -1)
	}
	edit(s)
	if !s.empty() {
		t.count(a, 1)
		return
	}
	delete(t.slots, a)
	for _, span := range t.index.at(a) {
		span.giveBack(a)
	}
}

// count puts the state of an address into its pools' figures (1), or takes it
// out of them (-1).
func (t *Table) count(a netip.Addr, by int) {
	s, f := t.slots[a], model.FamilyOf(a)
	p, isParked := s.parked(a)
	for _, span := range t.index.at(a) {
		v := span.of
		if !isParked {
			v.held[f] += by
			continue
		}
		i, _ := slices.BinarySearchFunc(v.parked[f], p, parked.compare)
		if by > 0 {
			v.parked[f] = slices.Insert(v.parked[f], i, p)
		} else {
			v.parked[f] = slices.Delete(v.parked[f], i, i+1)
		}
	}
}

func (h Holding) normalize() Holding {
	h.Addresses, h.Ports = unmapped(h.Addresses), sortedPorts(h.Ports)
	return h
}

func unmapped(in []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range in {
		if a = a.Unmap(); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

func sortedPorts(ports []model.Port) []model.Port {
	ports = slices.Clone(ports)
	slices.SortFunc(ports, model.Port.Compare)
	return slices.Compact(ports)
}

func sortedAddrs[V any](m map[netip.Addr]V) []netip.Addr {
	addrs := make([]netip.Addr, 0, len(m))
	for a := range m {
		addrs = append(addrs, a)
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return addrs
}

func (r Reservation) compare(o Reservation) int {
	return cmp.Or(r.Address.Compare(o.Address), r.For.Compare(o.For))
}

func (r Reservation) compareEnd(o Reservation) int {
	return cmp.Or(r.Until.Compare(o.Until), r.compare(o))
}
