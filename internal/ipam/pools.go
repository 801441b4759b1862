package ipam

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// CheckPools returns everything that is wrong with a set of pools, joined:
// names that are missing or taken, pools without ranges, ranges that ParseRange
// would refuse, and ranges that overlap within or between pools.
func CheckPools(pools []Pool) error {
	type named struct {
		Range
		pool string
	}
	var problems []error
	var ranges []named
	seen := map[string]bool{}
	for _, p := range pools {
		if p.Name == "" || seen[p.Name] {
			problems = append(problems, fmt.Errorf("checking pool %q: its name is missing or taken", p.Name))
		}
		seen[p.Name] = true
		if len(p.Ranges) == 0 {
			problems = append(problems, fmt.Errorf("checking pool %q: it has no addresses", p.Name))
		}
		for _, r := range p.Ranges {
			if err := r.check(); err != nil {
				problems = append(problems, fmt.Errorf("checking pool %q: %w", p.Name, err))
				continue
			}
			ranges = append(ranges, named{r, p.Name})
		}
	}
	slices.SortStableFunc(ranges, func(a, b named) int { return a.First.Compare(b.First) })
	for i := 1; i < len(ranges); i++ {
		a, b := ranges[i-1], ranges[i]
		if !a.Last.Less(b.First) {
			problems = append(problems, fmt.Errorf("checking pool %q: its range %s overlaps %s of pool %q", b.pool, b, a, a.pool))
		}
		if b.Last.Less(a.Last) {
			ranges[i] = a // the wider one may reach the next as well
		}
	}
	return errors.Join(problems...)
}

// view is a pool with what the table knows of its addresses.
type view struct {
	Pool
	rank  int // position in the order of assignment
	spans []*span
	// held counts addresses in use; parked are the reserved ones nobody
	// holds, those released longest ago first.
	held   map[model.Family]int
	parked map[model.Family][]parked
}

// span is a range of a pool with the addresses that are free in it: those in
// back, and everything from next on that has no slot. So the lowest free
// address is found without looking twice at those in use.
type span struct {
	Range
	of     *view
	next   netip.Addr // not valid: the end is reached
	back   heap[netip.Addr]
	queued map[netip.Addr]struct{} // what is in back
}

func newViews(pools []Pool) []*view {
	pools = slices.Clone(pools)
	slices.SortStableFunc(pools, func(a, b Pool) int {
		return cmp.Or(cmp.Compare(a.turn(), b.turn()), cmp.Compare(a.Name, b.Name))
	})
	views := make([]*view, 0, len(pools))
	for i, p := range pools {
		v := &view{Pool: p, rank: i, held: map[model.Family]int{}, parked: map[model.Family][]parked{}}
		for _, r := range p.Ranges {
			if r.check() == nil {
				v.spans = append(v.spans, &span{
					Range:  r,
					of:     v,
					next:   r.First,
					back:   heap[netip.Addr]{less: netip.Addr.Less},
					queued: map[netip.Addr]struct{}{},
				})
			}
		}
		views = append(views, v)
	}
	return views
}

func (p Pool) turn() int {
	if p.Priority <= 0 {
		return math.MaxInt
	}
	return p.Priority
}

// offers tells whether the pool gives out an address; named: to somebody who
// asked for that address.
func (s *span) offers(a netip.Addr, named bool) bool {
	if s.of.AvoidBuggyIPs && a.Is4() {
		if last := a.As4()[3]; last == 0 || last == 255 {
			return false
		}
	}
	return named || s.automatic(a)
}

// giveBack takes a free address back.
func (s *span) giveBack(a netip.Addr) {
	if _, ok := s.queued[a]; ok || !s.offers(a, false) || s.next.IsValid() && !a.Less(s.next) {
		return
	}
	s.queued[a] = struct{}{}
	s.back.push(a)
}

// advance moves next to an address, or to the end.
func (s *span) advance(to netip.Addr) {
	if s.next = to; !s.Contains(to) {
		s.next = netip.Addr{}
	}
}

// serves tells whether the pool has any addresses of a family.
func (v *view) serves(f model.Family) bool {
	return slices.ContainsFunc(v.spans, func(s *span) bool { return s.Family() == f })
}

// index finds the spans that hold an address.
type index struct {
	spans []*span // by first address
	// reach is the greatest last address up to each position.
	reach []netip.Addr
}

func newIndex(views []*view) index {
	var x index
	for _, v := range views {
		x.spans = append(x.spans, v.spans...)
	}
	slices.SortStableFunc(x.spans, func(a, b *span) int { return a.First.Compare(b.First) })
	var reach netip.Addr
	for _, s := range x.spans {
		if reach.Less(s.Last) {
			reach = s.Last
		}
		x.reach = append(x.reach, reach)
	}
	return x
}

// at returns the spans that hold an address, in the order of their pools.
func (x index) at(a netip.Addr) []*span {
	i, _ := slices.BinarySearchFunc(x.spans, a, func(s *span, a netip.Addr) int {
		if a.Less(s.First) {
			return 1
		}
		return -1
	})
	var found []*span
	for i--; i >= 0 && !x.reach[i].Less(a); i-- {
		if x.spans[i].Contains(a) {
			found = append(found, x.spans[i])
		}
	}
	slices.SortStableFunc(found, func(a, b *span) int { return cmp.Compare(a.of.rank, b.of.rank) })
	return found
}

// exclusions are addresses never to give out: disjoint prefixes, sorted.
type exclusions []netip.Prefix

func newExclusions(prefixes []netip.Prefix) exclusions {
	var sorted []netip.Prefix
	for _, p := range prefixes {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if p.IsValid() {
			sorted = append(sorted, p.Masked())
		}
	}
	slices.SortFunc(sorted, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var x exclusions
	for _, p := range sorted {
		if len(x) == 0 || !x[len(x)-1].Contains(p.Addr()) {
			x = append(x, p)
		}
	}
	return x
}

// of returns the prefix that excludes an address.
func (x exclusions) of(a netip.Addr) (netip.Prefix, bool) {
	i, _ := slices.BinarySearchFunc(x, a, func(p netip.Prefix, a netip.Addr) int {
		if a.Less(p.Addr()) {
			return 1
		}
		return -1
	})
	if i == 0 || !x[i-1].Contains(a) {
		return netip.Prefix{}, false
	}
	return x[i-1], true
}
