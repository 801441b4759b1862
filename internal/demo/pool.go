//go:build linux

package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// errNoPool says that every part of the loopback range is in use.
var errNoPool = errors.New("port 8080 is in use in every part of 127.77.0.0/16; end what listens there")

// pool is a part of the loopback range that no other demo on this machine uses.
type pool struct {
	prefix netip.Prefix
	// claim is a socket at the pool's last address, which is given to no
	// Service; whoever holds it has the pool.
	claim net.Listener
}

// claimPool takes the first of 127.77.0.0/24, 127.77.1.0/24, … that is free.
func claimPool(ctx context.Context) (*pool, error) {
	for third := range 256 {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 77, byte(third), 0}), 24)
		claim, err := listen(ctx, netip.AddrFrom4([4]byte{127, 77, byte(third), 255}), claimPort)
		if err != nil {
			continue
		}
		first, err := listen(ctx, prefix.Addr().Next(), claimPort)
		if err != nil { // something else, such as a controller with the default pool
			_ = claim.Close()
			continue
		}
		_ = first.Close()
		return &pool{prefix: prefix, claim: claim}, nil
	}
	return nil, errNoPool
}

// claimPort is the port of the Services in examples.
const claimPort = 8080

// release gives the pool back. A pool that was never claimed, nil, is not held.
func (p *pool) release() {
	if p != nil {
		_ = p.claim.Close()
	}
}

// listen opens a TCP socket that accepts at one address; port 0 takes a free one.
func listen(ctx context.Context, address netip.Addr, port uint16) (net.Listener, error) {
	at := netip.AddrPortFrom(address, port).String()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listening at %s: %w", at, err)
	}
	return l, nil
}
