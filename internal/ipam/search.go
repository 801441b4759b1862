package ipam

import (
	"net/netip"
	"slices"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// view returns the pool of a name, or nil.
func (t *Table) view(name string) *view {
	i := slices.IndexFunc(t.views, func(v *view) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return t.views[i]
}

// candidates returns the pools from which a request may be served
// automatically, in their order.
func (t *Table) candidates(req Request) []*view {
	if req.Pool != "" {
		return []*view{t.view(req.Pool)}
	}
	var views []*view
	for _, v := range t.views {
		if v.AutoAssign && req.allows(v.Name) {
			views = append(views, v)
		}
	}
	return views
}

// spanOf returns the range that an address comes from, of the first pool that
// the owner may use, or nil.
func (t *Table) spanOf(req Request, a netip.Addr) *span {
	spans := t.index.at(a)
	i := slices.IndexFunc(spans, func(s *span) bool {
		return req.allows(s.of.Name) && (req.Pool == "" || s.of.Name == req.Pool)
	})
	if i < 0 {
		return nil
	}
	return spans[i]
}

// viewOf returns the pool of spanOf. A pool asked for by name is no reason to
// say that a kept address is in none.
func (t *Table) viewOf(req Request, a netip.Addr) *view {
	s := t.spanOf(req, a)
	if s == nil {
		req.Pool = ""
		if s = t.spanOf(req, a); s == nil {
			return nil
		}
	}
	return s.of
}

// returning returns the address of a family that was reserved for the owner
// last and that it can still have from one of the pools.
func (t *Table) returning(req Request, f model.Family, views []*view) netip.Addr {
	var best Reservation
	for _, a := range t.reserved[req.Owner] {
		r, _ := t.slots[a].reservationOf(req.Owner)
		newer := !best.Address.IsValid() || r.Since.After(best.Since)
		if newer && model.FamilyOf(a) == f && t.within(a, views) && t.check(req, a) == nil {
			best = r
		}
	}
	return best.Address
}

func (t *Table) within(a netip.Addr, views []*view) bool {
	return slices.ContainsFunc(t.index.at(a), func(s *span) bool { return slices.Contains(views, s.of) })
}

// free returns the address that a pool gives to a request: one that is shared
// with its key already, or else the lowest free one of the first range.
func (t *Table) free(req Request, f model.Family, v *view) netip.Addr {
	if a := t.shared(req, f, v); a.IsValid() {
		return a
	}
	for _, s := range v.spans {
		if s.Family() != f {
			continue
		}
		if a := t.lowest(s); a.IsValid() {
			return a
		}
	}
	return netip.Addr{}
}

// lowest returns the lowest free address of a range.
func (t *Table) lowest(s *span) netip.Addr {
	for {
		a, ok := s.back.least()
		if !ok {
			break
		}
		t.steps++
		if _, excluded := t.excluded.of(a); !excluded && t.slots[a] == nil {
			return a
		}
		s.back.drop()
		delete(s.queued, a)
	}
	for s.next.IsValid() {
		t.steps++
		p, excluded := t.excluded.of(s.next)
		switch {
		case excluded:
			s.advance(lastOf(p).Next())
		case t.slots[s.next] == nil && s.offers(s.next, false):
			return s.next
		default:
			s.advance(s.next.Next())
		}
	}
	return netip.Addr{}
}

// shared returns the lowest address of a pool that others hold and that the
// request may join.
func (t *Table) shared(req Request, f model.Family, v *view) netip.Addr {
	var lowest netip.Addr
	me := Holding{Owner: req.Owner, Share: req.Share}
	taken := func(a netip.Addr, p model.Port) bool {
		t.steps++
		return t.slots[a].ports[p] > 0
	}
	fits := func(a netip.Addr) bool {
		_, excluded := t.excluded.of(a)
		_, barred := t.slots[a].bars(req.Owner, req.asking())
		return !excluded && !barred && t.within(a, []*view{v}) && t.disagreement(me, a) == nil
	}
	for _, k := range groupsOf(me.term(), f) {
		g := t.groups[k]
		if g == nil {
			continue
		}
		if a, ok := g.search(req.Ports, taken, fits); ok && (!lowest.IsValid() || a.Less(lowest)) {
			lowest = a
		}
	}
	return lowest
}

// waiting returns the address of a pool that was released longest ago of those
// released while the owner already waited.
func (t *Table) waiting(req Request, f model.Family, v *view) netip.Addr {
	list := v.parked[f]
	i, _ := slices.BinarySearchFunc(list, req.asking(), func(p parked, created time.Time) int {
		if p.since.After(created) {
			return 1
		}
		return -1
	})
	for _, p := range list[i:] {
		t.steps++
		_, excluded := t.excluded.of(p.address)
		named := slices.ContainsFunc(v.spans, func(s *span) bool {
			return s.Contains(p.address) && s.offers(p.address, false)
		})
		if named && !excluded {
			return p.address
		}
	}
	return netip.Addr{}
}

// portOwner returns the holder other than the owner that has a port at an
// address: the eldest, where several were restored.
func (t *Table) portOwner(a netip.Addr, p model.Port, owner model.Key) (Holding, bool) {
	s := t.slots[a]
	if s == nil {
		return Holding{}, false
	}
	others := s.ports[p]
	if t.holdings[owner].has(a, p) {
		others--
	}
	if others == 0 {
		return Holding{}, false
	}
	return t.eldest(s, owner, func(h Holding) bool { return slices.Contains(h.Ports, p) })
}

// disagreement returns why the owner of a holding may not hold an address
// together with those who have it; ports are not looked at.
func (t *Table) disagreement(me Holding, a netip.Addr) *refusal {
	s := t.slots[a]
	if s == nil {
		return nil
	}
	mine, now := me.term(), t.holdings[me.Owner]
	holds := slices.Contains(now.Addresses, a)
	agreed := true
	for other, n := range s.terms {
		if holds && other == now.term() {
			n--
		}
		agreed = agreed && (n == 0 || mine.agrees(other))
	}
	if agreed {
		return nil
	}
	h, _ := t.eldest(s, me.Owner, func(h Holding) bool { return !mine.agrees(h.term()) })
	return disagreement(a, mine, h)
}

// eldest returns the eldest other holder of which something is true.
func (t *Table) eldest(s *slot, owner model.Key, is func(Holding) bool) (Holding, bool) {
	var found Holding
	ok := false
	for _, k := range s.holders {
		if h := t.holdings[k]; k != owner && is(h) && (!ok || h.elder(found)) {
			found, ok = h, true
		}
	}
	return found, ok
}
