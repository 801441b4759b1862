package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// refusal is why something cannot be had.
type refusal struct {
	reason  Reason
	message string
}

func refuse(reason Reason, format string, args ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// contradiction returns what makes a request impossible whatever is free.
func (t *Table) contradiction(req Request) *refusal {
	if len(req.Families) == 0 {
		return refuse(InvalidRequest, "%s asks for no address family; name at least one", req.Owner)
	}
	for i, f := range req.Families {
		if slices.Contains(req.Families[:i], f) {
			return refuse(InvalidRequest, "%s asks for %s twice; name each family once", req.Owner, f)
		}
	}
	for i, a := range req.Addresses {
		f := model.FamilyOf(a)
		if _, again := ofFamily(req.Addresses[:i], f); again || !a.IsValid() {
			return refuse(InvalidRequest, "%s asks for %s; ask for at most one valid address of each family",
				req.Owner, model.JoinAddrs(req.Addresses))
		}
		if !slices.Contains(req.Families, f) {
			return refuse(FamilyMismatch, "%s is an %s address, but %s wants %s; ask for an address of that family or change the families",
				a, f, req.Owner, familyNames(req.Families))
		}
	}
	return t.poolContradiction(req)
}

func (t *Table) poolContradiction(req Request) *refusal {
	switch {
	case req.Pool == "":
		return nil
	case t.view(req.Pool) == nil:
		return refuse(UnknownPool, "there is no pool %q; %s", req.Pool, t.poolNames(req))
	case !req.allows(req.Pool):
		return refuse(PoolNotAllowed, "%s may not use pool %s; %s", req.Owner, req.Pool, t.poolNames(req))
	}
	return nil
}

// check returns why an owner cannot have an address that it does not hold.
func (t *Table) check(req Request, a netip.Addr) *refusal {
	if r := t.checkPools(req, a); r != nil {
		return r
	}
	s := t.slots[a]
	if s == nil {
		return nil
	}
	for _, p := range req.Ports {
		if h, ok := t.portOwner(a, p, req.Owner); ok {
			return &refusal{AddressInUse, portInUse(a, p, h.Owner)}
		}
	}
	return t.disagreement(Holding{Owner: req.Owner, Share: req.Share}, a)
}

// checkPools returns why no pool gives an address to an owner.
func (t *Table) checkPools(req Request, a netip.Addr) *refusal {
	if p, excluded := t.excluded.of(a); excluded {
		return refuse(AddressExcluded, "%s lies in %s, which the cluster itself uses and no pool gives out; ask for another address", a, p)
	}
	spans := t.index.at(a)
	if len(spans) == 0 {
		return refuse(AddressNotInPool, "%s is in no pool (%s); add it to one or ask for an address of a pool", a, t.poolRanges(req))
	}
	if !slices.ContainsFunc(spans, func(s *span) bool { return req.Pool == "" || s.of.Name == req.Pool }) {
		return refuse(AddressNotInPool, "%s is not in pool %s that is asked for, but in %s; ask for one or the other", a, req.Pool, spans[0].of.Name)
	}
	s := t.spanOf(req, a)
	if s == nil {
		return refuse(PoolNotAllowed, "%s is in pool %s, which %s may not use; %s", a, spans[0].of.Name, req.Owner, t.poolNames(req))
	}
	if !s.offers(a, true) {
		return refuse(AddressExcluded, "%s ends in .0 or .255, which pool %s avoids; ask for another address", a, s.of.Name)
	}
	return nil
}

// checkHeld returns for whom else an address is reserved.
func (t *Table) checkHeld(req Request, a netip.Addr, now time.Time) *refusal {
	s := t.slots[a]
	if s == nil {
		return nil
	}
	if r, barred := s.bars(req.Owner, req.asking()); barred {
		return refuse(AddressHeld, "%s is held for %s until %s; re-create it to get the address back", a, r.For, clock(r.Until, now))
	}
	return nil
}

func portInUse(a netip.Addr, p model.Port, by model.Key) string {
	return fmt.Sprintf("%s %s is in use by %s; change the port or ask for another address", a, p, by)
}

// disagreement returns why an owner with these terms may not join a holder.
// The holder's key is not told: knowing it is what permits sharing.
func disagreement(a netip.Addr, mine term, holder Holding) *refusal {
	theirs := holder.term()
	switch {
	case mine.agrees(theirs):
		return nil
	case mine.Key == "" || theirs.Key == "":
		return refuse(AddressInUse, "%s is in use by %s; ask for another address, or give both the same sharing key", a, holder.Owner)
	case mine.Key != theirs.Key:
		return refuse(SharingRefused, "%s is shared by %s with another sharing key; use the same key or ask for another address", a, holder.Owner)
	case mine.Backend != theirs.Backend:
		return refuse(SharingRefused,
			"%s is shared by %s, whose traffic policy or selector differs; make them equal or ask for another address", a, holder.Owner)
	default:
		return refuse(SharingRefused, "%s is shared by %s within its namespace only; ask for another address", a, holder.Owner)
	}
}

// exhaustion says why no pool has an address of a family.
func (t *Table) exhaustion(req Request, f model.Family, views []*view, now time.Time) *refusal {
	if len(views) == 0 {
		return refuse(FamilyUnavailable, "no pool assigns addresses to %s automatically; %s", req.Owner, t.poolNames(req))
	}
	var names, without []string
	held, reserved := 0, 0
	var first time.Time
	for _, v := range views {
		if without = append(without, v.Name); !v.serves(f) {
			continue
		}
		names = append(names, v.Name)
		held += v.held[f]
		reserved += len(v.parked[f])
		for _, p := range v.parked[f] {
			if first.IsZero() || p.until.Before(first) {
				first = p.until
			}
		}
	}
	if len(names) == 0 {
		return refuse(FamilyUnavailable, "no %s addresses in %s; add a range to it or change the families", f, poolList(without))
	}
	figures := fmt.Sprintf("%d in use", held)
	if reserved > 0 {
		figures += fmt.Sprintf(", %d held for earlier owners, the first until %s", reserved, clock(first, now))
	}
	return refuse(PoolExhausted, "no free %s address in %s: %s; release one or add a range", f, poolList(names), figures)
}

// explain returns the reason and sentence of a verdict: the gravest first.
func (d *decision) explain(v Verdict) (Reason, string) {
	switch {
	case d.refused != nil:
		return d.refused.reason, d.refused.message + keeps(d.had.Addresses, v.Addresses)
	case d.disagree != nil:
		return d.disagree.reason, d.disagree.message + keeps(d.had.Addresses, v.Addresses)
	case len(d.ports) > 0:
		return Reason(d.ports[0].Reason), d.ports[0].Message
	}
	for i, a := range v.Addresses {
		if r := d.outside(a, v.Pools[i]); r != nil {
			return r.reason, r.message
		}
	}
	text := model.JoinAddrs(v.Addresses) + " from " + poolList(slices.Compact(slices.Clone(v.Pools)))
	if d.note != nil {
		text += "; " + d.note.message
	}
	return AddressAssigned, text
}

// outside says what is wrong with where a kept address comes from.
func (d *decision) outside(a netip.Addr, pool string) *refusal {
	if p, excluded := d.excluded.of(a); excluded {
		return refuse(AddressExcluded, "%s lies in %s, which the cluster itself uses; it is kept until %s is re-created", a, p, d.req.Owner)
	}
	if pool != "" {
		return nil
	}
	if spans := d.index.at(a); len(spans) > 0 {
		return refuse(AddressOutsidePools, "%s is in pool %s, which %s may no longer use; it is kept until %s is re-created",
			a, spans[0].of.Name, d.req.Owner, d.req.Owner)
	}
	return refuse(AddressOutsidePools, "%s is in no pool any more (%s); add it to one, or re-create %s to get another",
		a, d.poolRanges(d.req), d.req.Owner)
}

func keeps(had, now []netip.Addr) string {
	var kept []netip.Addr
	for _, a := range now {
		if slices.Contains(had, a) {
			kept = append(kept, a)
		}
	}
	if len(kept) == 0 {
		return ""
	}
	return "; keeps " + model.JoinAddrs(kept)
}

// clock writes a time in UTC: hours and minutes if it is on the same day, else
// with the date.
func clock(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04")
	}
	return at.Format("2006-01-02 15:04")
}

// listed is how many pools a message names.
const listed = 8

// poolNames names the pools that an owner may use.
func (t *Table) poolNames(req Request) string {
	var names []string
	for _, v := range t.views {
		if req.allows(v.Name) {
			names = append(names, v.Name)
		}
	}
	if len(names) == 0 {
		return "there is none it may use"
	}
	return "it may use " + shorten(names)
}

// poolRanges names the ranges of the pools that an owner may use.
func (t *Table) poolRanges(req Request) string {
	var ranges []string
	for _, v := range t.views {
		if !req.allows(v.Name) {
			continue
		}
		for _, s := range v.spans {
			ranges = append(ranges, v.Name+": "+s.String())
		}
	}
	if len(ranges) == 0 {
		return "there is none it may use"
	}
	return shorten(ranges)
}

func poolList(names []string) string {
	if len(names) == 1 {
		return "pool " + names[0]
	}
	return "pools " + shorten(names)
}

func shorten(items []string) string {
	if more := len(items) - listed; more > 0 {
		items = append(slices.Clone(items[:listed]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(items, ", ")
}

func familyNames(families []model.Family) string {
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = string(f)
	}
	return strings.Join(names, " and ")
}
