package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// Assign decides a request and carries the decision out. Asking again for the
// same changes nothing. now is compared with reservations only.
//
// An owner keeps an address as long as nothing it asks for by name contradicts
// it; what the request cannot have is refused without touching what it has.
// A reserved address goes back to its former owner, and to others not before
// Until, except to an owner that was created before it was released: by name
// at once, automatically when nothing else is free. A port that another owner
// has at a kept address is refused at all addresses, and terms of sharing that
// another owner does not agree with leave the former terms and ports in force;
// the other owner is never disturbed.
func (t *Table) Assign(req Request, now time.Time) Verdict {
	t.expire(now)
	req = req.normalize()
	d := &decision{Table: t, req: req, now: now, had: t.holdings[req.Owner]}
	if d.refused = t.contradiction(req); d.refused == nil {
		d.find()
	}
	d.settle()
	return d.commit()
}

func (r Request) normalize() Request {
	r.Addresses, r.Ports = unmapped(r.Addresses), sortedPorts(r.Ports)
	return r
}

// asked returns the address asked for of a family.
func (r Request) asked(f model.Family) (netip.Addr, bool) { return ofFamily(r.Addresses, f) }

func (r Request) allows(pool string) bool { return r.Pools == nil || slices.Contains(r.Pools, pool) }

func ofFamily(addrs []netip.Addr, f model.Family) (netip.Addr, bool) {
	i := slices.IndexFunc(addrs, func(a netip.Addr) bool { return model.FamilyOf(a) == f })
	if i < 0 {
		return netip.Addr{}, false
	}
	return addrs[i], true
}

// decision is one request on its way to a verdict.
type decision struct {
	*Table
	req Request
	now time.Time
	had Holding

	seats   []seat // one a wanted family
	refused *refusal
	// note says why a preferred family is missing where that is no refusal.
	note *refusal

	// get is the holding that results.
	get      Holding
	disagree *refusal
	ports    []model.PortError
}

// seat is what was found for one family.
type seat struct {
	family model.Family
	// addr is not valid if nothing was found; then refused says why.
	addr    netip.Addr
	refused *refusal
	// named: the address was asked for by name.
	named bool
}

func (s seat) open() bool { return !s.addr.IsValid() && s.refused == nil }

// find fills the seats: what is kept, what is asked for, what is free.
func (d *decision) find() {
	for _, f := range d.req.Families {
		s := seat{family: f}
		asked, named := d.req.asked(f)
		held, holds := ofFamily(d.had.Addresses, f)
		switch s.named = named; {
		case holds && (!named || asked == held) && d.inPool(held, d.req.Pool):
			s.addr = held
		case named:
			s.refused = cmp.Or(d.check(d.req, asked), d.checkHeld(d.req, asked, d.now))
			if s.refused == nil {
				s.addr = asked
			}
		}
		d.seats = append(d.seats, s)
	}
	d.fill()
	d.weigh()
}

// weigh tells refusals from notes. The first refusal is the verdict's.
func (d *decision) weigh() {
	for _, s := range d.seats {
		switch {
		case s.refused == nil:
		case d.soft(s):
			d.note = s.refused
		case d.refused == nil:
			d.refused = s.refused
		}
	}
}

// soft tells whether a refused seat leaves the request met: a preferred family
// that no pool has to give and that the owner does not have, beside another
// that it has.
func (d *decision) soft(s seat) bool {
	_, had := ofFamily(d.had.Addresses, s.family)
	return !s.named && !had && !d.req.RequireAll &&
		slices.ContainsFunc(d.seats, func(s seat) bool { return s.addr.IsValid() })
}

// inPool tells whether a pool, if one is named, has an address.
func (d *decision) inPool(a netip.Addr, pool string) bool {
	return pool == "" || slices.ContainsFunc(d.index.at(a), func(s *span) bool { return s.of.Name == pool })
}

// fill finds addresses for the open seats: the owner's own reservations first,
// then one pool for both families, then any pool, and last what others have
// reserved while this owner already waited.
func (d *decision) fill() {
	open := d.open()
	if len(open) == 0 {
		return
	}
	views := d.candidates(d.req)
	for _, s := range open {
		s.addr = d.returning(d.req, s.family, views)
	}
	views = d.nearest(views)
	if open = d.open(); len(open) > 1 {
		d.fillTogether(open, views)
	}
	for _, find := range []func(Request, model.Family, *view) netip.Addr{d.free, d.waiting} {
		for _, s := range d.open() {
			for _, v := range views {
				if s.addr = find(d.req, s.family, v); s.addr.IsValid() {
					break
				}
			}
		}
	}
	for _, s := range d.open() {
		s.refused = d.exhaustion(d.req, s.family, views, d.now)
	}
}

// fillTogether fills all open seats from the first pool that can.
func (d *decision) fillTogether(open []*seat, views []*view) {
	found := make([]netip.Addr, len(open))
	for _, v := range views {
		for i, s := range open {
			if found[i] = d.free(d.req, s.family, v); !found[i].IsValid() {
				break
			}
		}
		if found[len(open)-1].IsValid() {
			for i, s := range open {
				s.addr = found[i]
			}
			return
		}
		clear(found)
	}
}

func (d *decision) open() []*seat {
	var open []*seat
	for i := range d.seats {
		if d.seats[i].open() {
			open = append(open, &d.seats[i])
		}
	}
	return open
}

// nearest puts the pool that a family's address already comes from first.
func (d *decision) nearest(views []*view) []*view {
	for _, s := range d.seats {
		v := d.viewOf(d.req, s.addr)
		if i := slices.Index(views, v); i > 0 {
			return slices.Insert(slices.Delete(slices.Clone(views), i, i+1), 0, v)
		}
	}
	return views
}

// settle works out the holding that results from the seats.
func (d *decision) settle() {
	d.get = Holding{Owner: d.req.Owner, Created: d.req.Created, Share: d.req.Share}
	if d.refused == nil || !d.req.RequireAll {
		for _, s := range d.seats {
			if !s.addr.IsValid() {
				s.addr, _ = ofFamily(d.had.Addresses, s.family)
			}
			if s.addr.IsValid() {
				d.get.Addresses = append(d.get.Addresses, s.addr)
			}
		}
	}
	if len(d.get.Addresses) == 0 {
		d.get.Addresses = d.had.Addresses
	}
	for _, a := range d.get.Addresses {
		if d.disagree = d.disagreement(d.get, a); d.disagree != nil {
			d.get.Addresses, d.get.Share = d.had.Addresses, d.had.Share
			break
		}
	}
	d.settlePorts()
}

// settlePorts grants the wanted ports that nobody else has.
func (d *decision) settlePorts() {
	for _, p := range d.req.Ports {
		if e, ok := d.portError(p); ok {
			d.ports = append(d.ports, e)
			continue
		}
		d.get.Ports = append(d.get.Ports, p)
	}
}

func (d *decision) portError(p model.Port) (model.PortError, bool) {
	for _, a := range d.get.Addresses {
		if other, ok := d.rival(a, p); ok {
			return model.PortError{Port: p, Reason: string(AddressInUse), Message: portInUse(a, p, other)}, true
		}
	}
	if d.disagree != nil && !slices.Contains(d.had.Ports, p) {
		return model.PortError{Port: p, Reason: string(d.disagree.reason), Message: d.disagree.message}, true
	}
	return model.PortError{}, false
}

// rival returns the owner that keeps a port from this one. Of two that were
// restored with the port, that is the elder.
func (d *decision) rival(a netip.Addr, p model.Port) (model.Key, bool) {
	other, ok := d.portOwner(a, p, d.req.Owner)
	if !ok || d.had.has(a, p) && d.had.elder(other) {
		return model.Key{}, false
	}
	return other.Owner, true
}

// commit carries the decision out and says what was decided.
func (d *decision) commit() Verdict {
	v := Verdict{
		Addresses:    slices.Clone(d.get.Addresses),
		Partial:      d.missing(),
		Changed:      !slices.Equal(d.had.Addresses, d.get.Addresses),
		RefusedPorts: d.ports,
	}
	for _, a := range d.get.Addresses {
		if slices.Contains(d.had.Addresses, a) {
			continue
		}
		v.Ended = append(v.Ended, d.claim(a)...)
	}
	slices.SortFunc(v.Ended, Reservation.compare)
	if !d.get.equal(d.had) {
		if len(d.had.Addresses) > 0 {
			d.unhold(d.had)
		}
		if len(d.get.Addresses) > 0 {
			d.hold(d.get)
		}
	}
	var left []netip.Addr
	for _, a := range d.had.Addresses {
		if !slices.Contains(d.get.Addresses, a) {
			left = append(left, a)
		}
	}
	v.Reserved = d.reserveAll(left, Reservation{For: d.req.Owner, Since: d.now, Until: d.now.Add(d.req.Delay)})
	for _, a := range v.Addresses {
		name := ""
		if view := d.viewOf(d.req, a); view != nil {
			name = view.Name
		}
		v.Pools = append(v.Pools, name)
	}
	v.Reason, v.Message = d.explain(v)
	return v
}

// claim ends the reservations of an address that the owner takes: its own, or
// else, as it was waiting, all.
func (d *decision) claim(a netip.Addr) []Reservation {
	s := d.slots[a]
	if s == nil {
		return nil
	}
	if own, ok := s.reservationOf(d.req.Owner); ok {
		d.unreserve(a, own.For)
		return []Reservation{own}
	}
	ended := slices.Clone(s.reserved)
	for _, r := range ended {
		d.unreserve(a, r.For)
	}
	return ended
}

// missing tells whether a wanted family has no address.
func (d *decision) missing() bool {
	return slices.ContainsFunc(d.req.Families, func(f model.Family) bool {
		_, ok := ofFamily(d.get.Addresses, f)
		return !ok
	})
}

func (h Holding) equal(o Holding) bool {
	return h.Owner == o.Owner && h.Created.Equal(o.Created) && h.Share == o.Share &&
		slices.Equal(h.Addresses, o.Addresses) && slices.Equal(h.Ports, o.Ports)
}
