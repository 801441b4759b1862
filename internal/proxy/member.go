package proxy

import (
	"net/netip"
	"sync/atomic"
)

// member is one place a service sends traffic to. Its identity is the address;
// links, health and position live as long as the address is wanted or used.
type member struct {
	address netip.AddrPort
	links   links
	health  health
	// checker checks the member; nil: nobody does.
	checker atomic.Pointer[checker]

	// removed tells flows, which have no lock, that the member is no longer
	// wanted; present is the same for who holds the service's lock.
	removed atomic.Bool
	present bool
	// position is that of smooth weighted round robin.
	position int

	total, failed, toMember, fromMember atomic.Uint64
}

func newMember(a netip.AddrPort) *member { return &member{address: a} }
