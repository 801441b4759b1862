package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// Range is a run of addresses of one family, both ends included.
type Range struct {
	First, Last netip.Addr
	// Subnet: the range is one subnet, written as a prefix. Its IPv4 network
	// and broadcast addresses and its IPv6 subnet-router anycast address (RFC
	// 4291 section 2.6.1) are given out only to those who ask for them by
	// name. /31, /32, /127 and /128 have none of these (RFC 3021, RFC 6164).
	Subnet bool
}

// ErrRange is wrapped by every error of ParseRange.
var ErrRange = errors.New("not a range of addresses")

// ParseRange reads "192.0.2.0/24" or "192.0.2.10-192.0.2.20", with spaces
// around each part allowed. Host bits of a prefix are masked off. Refused are
// mixed families, zones, IPv4-mapped IPv6, a reversed order, and ranges that
// hold addresses no balancer can listen on: unspecified, link-local, multicast
// and limited broadcast. Loopback is accepted; where it has no place is for
// the caller to say.
func ParseRange(text string) (Range, error) {
	r, err := readRange(strings.TrimSpace(text))
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return Range{}, fmt.Errorf("reading range %q: %w", text, err)
	}
	return r, nil
}

// ParsePool reads the ranges of a pool that is used automatically, and checks
// it. An empty list makes a pool without addresses.
func ParsePool(name string, ranges []string) (Pool, error) {
	pool := Pool{Name: name, AutoAssign: true}
	for _, text := range ranges {
		r, err := ParseRange(text)
		if err != nil {
			return Pool{}, err
		}
		pool.Ranges = append(pool.Ranges, r)
	}
	if err := CheckPools([]Pool{pool}); err != nil {
		return Pool{}, err
	}
	return pool, nil
}

func readRange(text string) (Range, error) {
	if first, last, ok := strings.Cut(text, "-"); ok {
		a, errA := netip.ParseAddr(strings.TrimSpace(first))
		b, errB := netip.ParseAddr(strings.TrimSpace(last))
		if err := errors.Join(errA, errB); err != nil {
			return Range{}, fmt.Errorf("%w: write it as first-last, such as 192.0.2.10-192.0.2.20", ErrRange)
		}
		return Range{First: a, Last: b}, nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return Range{}, fmt.Errorf("%w: write it as a prefix, such as 192.0.2.0/24, or as first-last", ErrRange)
	}
	return Range{First: p.Masked().Addr(), Last: lastOf(p), Subnet: true}, nil
}

func (r Range) check() error {
	switch {
	case !r.First.IsValid() || !r.Last.IsValid():
		return fmt.Errorf("%w: it has no ends", ErrRange)
	case r.First.Is4In6() || r.Last.Is4In6():
		return fmt.Errorf("%w: write IPv4 addresses in dotted form", ErrRange)
	case r.First.Zone() != "" || r.Last.Zone() != "":
		return fmt.Errorf("%w: a zone is not allowed", ErrRange)
	case r.First.BitLen() != r.Last.BitLen():
		return fmt.Errorf("%w: its ends are of different families", ErrRange)
	case r.Last.Less(r.First):
		return fmt.Errorf("%w: its end is below its start", ErrRange)
	}
	for _, p := range unusable() {
		if r.overlaps(p) {
			return fmt.Errorf("%w: it holds addresses of %s, which no load balancer can use", ErrRange, p)
		}
	}
	return nil
}

// unusable are the blocks of RFC 6890 and RFC 4291 that name no host a client
// could reach over a router or on a link without a zone.
func unusable() []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{}), 8),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254}), 16),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{224}), 4),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), 32),
		netip.PrefixFrom(netip.IPv6Unspecified(), 128),
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfe, 0x80}), 10),
		netip.PrefixFrom(netip.AddrFrom16([16]byte{0xff}), 8),
	}
}

func (r Range) overlaps(p netip.Prefix) bool {
	return p.Addr().BitLen() == r.First.BitLen() && !r.Last.Less(p.Masked().Addr()) && !lastOf(p).Less(r.First)
}

// Contains tells whether an address lies in the range.
func (r Range) Contains(a netip.Addr) bool {
	return a.BitLen() == r.First.BitLen() && !a.Less(r.First) && !r.Last.Less(a)
}

// Family returns the family of the range's addresses.
func (r Range) Family() model.Family { return model.FamilyOf(r.First) }

// String returns the range as ParseRange reads it.
func (r Range) String() string {
	if r.Subnet {
		for bits := range r.First.BitLen() + 1 {
			if p := netip.PrefixFrom(r.First, bits); p.Masked() == p && lastOf(p) == r.Last {
				return p.String()
			}
		}
	}
	return r.First.String() + "-" + r.Last.String()
}

// automatic tells whether an address of the range may be given to somebody who
// did not ask for it by name.
func (r Range) automatic(a netip.Addr) bool {
	if !r.Subnet || r.First == r.Last || r.First.Next() == r.Last {
		return true
	}
	return a != r.First && (a != r.Last || !a.Is4())
}

// lastOf returns the greatest address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As16()
	free := p.Addr().BitLen() - p.Bits()
	for i := 15; free > 0; i-- {
		b[i] |= byte(1<<min(free, 8) - 1)
		free -= 8
	}
	last := netip.AddrFrom16(b)
	if p.Addr().Is4() {
		return last.Unmap()
	}
	return last
}
