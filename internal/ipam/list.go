package ipam

import (
	"net/netip"
	"slices"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// Holders returns the owners that hold an address, sorted.
func (t *Table) Holders(a netip.Addr) []model.Key {
	if s := t.slots[a.Unmap()]; s != nil {
		return slices.Clone(s.holders)
	}
	return nil
}

// Holding returns what an owner holds, and whether it holds anything.
func (t *Table) Holding(owner model.Key) (Holding, bool) {
	h, ok := t.holdings[owner]
	return h.clone(), ok
}

// Holdings returns all holdings, sorted by owner.
func (t *Table) Holdings() []Holding {
	all := make([]Holding, 0, len(t.holdings))
	for _, h := range t.holdings {
		all = append(all, h.clone())
	}
	slices.SortFunc(all, func(a, b Holding) int { return a.Owner.Compare(b.Owner) })
	return all
}

// Reservations returns all reservations, sorted by address, then owner.
func (t *Table) Reservations() []Reservation {
	var all []Reservation
	for _, a := range sortedAddrs(t.slots) {
		all = append(all, t.slots[a].reserved...)
	}
	return all
}

// Reserved returns the reservations of an address, sorted by owner.
func (t *Table) Reserved(a netip.Addr) []Reservation {
	if s := t.slots[a.Unmap()]; s != nil {
		return slices.Clone(s.reserved)
	}
	return nil
}

// Conflicts returns the pairs of owners that hold one address but may not,
// sorted by address, then keys. Only Restore makes any: each keeps what it was
// restored with until its next Assign settles the ports.
func (t *Table) Conflicts() []Conflict {
	var found []Conflict
	for _, a := range sortedAddrs(t.slots) {
		holders := t.slots[a].holders
		for i, k := range holders {
			for _, l := range holders[i+1:] {
				if c, ok := conflict(a, t.holdings[k], t.holdings[l]); ok {
					found = append(found, c)
				}
			}
		}
	}
	return found
}

func conflict(a netip.Addr, x, y Holding) (Conflict, bool) {
	if !x.elder(y) {
		x, y = y, x
	}
	c := Conflict{Address: a, First: x.Owner, Second: y.Owner}
	for _, p := range y.Ports {
		if slices.Contains(x.Ports, p) {
			c.Message = portInUse(a, p, x.Owner)
			return c, true
		}
	}
	if r := disagreement(a, y.term(), x); r != nil {
		c.Message = r.message
		return c, true
	}
	return Conflict{}, false
}

func (h Holding) clone() Holding {
	h.Addresses, h.Ports = slices.Clone(h.Addresses), slices.Clone(h.Ports)
	return h
}
