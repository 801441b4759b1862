package netio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// udpBuffer is the socket buffer that is asked for, in bytes; the kernel gives
// what net.core.rmem_max and wmem_max allow.
const udpBuffer = 4 << 20

// ListenUDP returns a socket bound to exactly one address, so that what it
// sends leaves from the address its clients know. IPv4 datagrams go out with
// DF off (RFC 8085 §3.2: we do not know what the client would have wanted).
func ListenUDP(at netip.AddrPort) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: fragment}
	ctx := context.Background() //nolint:forbidigo // binding a numeric address waits for nothing
	pc, err := lc.ListenPacket(ctx, network("udp", at.Addr()), at.String())
	if err != nil {
		return nil, fmt.Errorf("listening on UDP %s: %w", at, err)
	}
	c, ok := pc.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listening on UDP %s: got a %T", at, pc), pc.Close())
	}
	if err := errors.Join(c.SetReadBuffer(udpBuffer), c.SetWriteBuffer(udpBuffer)); err != nil {
		return nil, errors.Join(fmt.Errorf("sizing the buffers of UDP %s: %w", at, err), c.Close())
	}
	return c, nil
}

// DialUDP returns a socket connected to an address: it receives from nobody
// else, and an ICMP error for what it sent comes back as an error of its next
// call (RFC 1122 §4.1.3.3). Each needs a local
// port of its own, whatever the destination (udp(7)).
func DialUDP(to netip.AddrPort) (*net.UDPConn, error) {
	d := net.Dialer{Control: fragment}
	ctx := context.Background() //nolint:forbidigo // connecting a UDP socket waits for nothing
	c, err := d.DialContext(ctx, network("udp", to.Addr()), to.String())
	if err != nil {
		return nil, fmt.Errorf("opening a UDP socket to %s: %w", to, err)
	}
	udp, ok := c.(*net.UDPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("opening a UDP socket to %s: got a %T", to, c), c.Close())
	}
	return udp, nil
}

// fragment lets the kernel fragment what is larger than the path takes.
func fragment(network, _ string, c syscall.RawConn) error {
	var opt error
	if err := c.Control(func(fd uintptr) { opt = allowFragments(fd, network) }); err != nil {
		return err
	}
	return opt
}
