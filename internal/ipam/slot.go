package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// slot is the state of one address that is held or reserved.
type slot struct {
	holders []model.Key // sorted
	// ports and terms count the holders that have a port and that share on
	// some terms, so that a crowded address is judged without asking each.
	ports    map[model.Port]int
	terms    map[term]int
	reserved []Reservation // sorted by For
}

func newSlot() *slot {
	return &slot{ports: map[model.Port]int{}, terms: map[term]int{}}
}

func (s *slot) empty() bool { return len(s.holders) == 0 && len(s.reserved) == 0 }

// parked is an address that nobody holds but that is reserved.
type parked struct {
	address netip.Addr
	// since is the earliest release, until the latest end of its reservations.
	since, until time.Time
}

func (p parked) compare(o parked) int {
	return cmp.Or(p.since.Compare(o.since), p.address.Compare(o.address))
}

// parked returns the slot as a parked address, if it is one.
func (s *slot) parked(a netip.Addr) (parked, bool) {
	if len(s.holders) > 0 || len(s.reserved) == 0 {
		return parked{}, false
	}
	p := parked{address: a, since: s.reserved[0].Since, until: s.reserved[0].Until}
	for _, r := range s.reserved[1:] {
		if r.Since.Before(p.since) {
			p.since = r.Since
		}
		if r.Until.After(p.until) {
			p.until = r.Until
		}
	}
	return p, true
}

// reservationOf returns the owner's own reservation.
func (s *slot) reservationOf(owner model.Key) (Reservation, bool) {
	i, ok := s.findReservation(owner)
	if !ok {
		return Reservation{}, false
	}
	return s.reserved[i], true
}

func (s *slot) findReservation(owner model.Key) (int, bool) {
	return slices.BinarySearchFunc(s.reserved, owner, func(r Reservation, k model.Key) int { return r.For.Compare(k) })
}

// bars returns the reservation that keeps an owner from the address: one of
// somebody else that was not made while the owner already waited. An owner
// with a reservation of its own is not barred.
func (s *slot) bars(owner model.Key, created time.Time) (Reservation, bool) {
	if _, own := s.findReservation(owner); own {
		return Reservation{}, false
	}
	for _, r := range s.reserved {
		if !created.Before(r.Since) {
			return r, true
		}
	}
	return Reservation{}, false
}

// term is an owner's terms of sharing together with the namespace it is in.
type term struct {
	Share
	of string
}

// agrees tells whether two owners may hold one address, ports apart.
func (a term) agrees(b term) bool {
	return a.Key != "" && a.Key == b.Key && a.Backend == b.Backend && a.admits(b) && b.admits(a)
}

func (a term) admits(b term) bool { return a.Namespace == "" || a.Namespace == b.of }

func (h Holding) term() term { return term{Share: h.Share, of: h.Owner.Namespace} }

// has tells whether the holding has a port at an address.
func (h Holding) has(a netip.Addr, p model.Port) bool {
	return slices.Contains(h.Addresses, a) && slices.Contains(h.Ports, p)
}

// elder tells whether a holding goes before another where both were restored
// with the same port.
func (h Holding) elder(o Holding) bool {
	return cmp.Or(h.Created.Compare(o.Created), h.Owner.Compare(o.Owner)) < 0
}
