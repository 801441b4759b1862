// Package netio puts the operating system's sockets behind small functions:
// listen and dial with the options that a relay needs, carry bytes from one
// TCP connection to another without copying them where the kernel can, end a
// connection by reset, and say in one word what an error means. It decides
// nothing: no time-out, retry or address is chosen here.
package netio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// keepAlive returns how idle TCP connections are probed: a dead peer is noticed
// within two minutes, a sleeping mobile client is not woken all the time.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 60 * time.Second, Interval: 10 * time.Second, Count: 6}
}

// ListenTCP returns a listening socket on exactly one address. It is plain TCP
// (no MPTCP) and its connections have keepalive and TCP_NODELAY on. Name the
// error with CauseOf.
func ListenTCP(at netip.AddrPort) (*net.TCPListener, error) {
	lc := keepAliveListener()
	lc.SetMultipathTCP(false)
	ctx := context.Background() //nolint:forbidigo // binding a numeric address waits for nothing
	l, err := lc.Listen(ctx, network("tcp", at.Addr()), at.String())
	if err != nil {
		return nil, fmt.Errorf("listening on TCP %s: %w", at, err)
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listening on TCP %s: got a %T", at, l), l.Close())
	}
	return tcp, nil
}

// DialTCP connects to an address. The time limit is that of ctx. The connection
// has TCP_NODELAY on; KeepAlive is for those that last. The local address and
// port are the kernel's choice when it knows the destination, so every
// destination has all local ports: net's own DialTCP would bind first, and
// share them among all.
func DialTCP(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
	d := net.Dialer{KeepAlive: -1}
	d.SetMultipathTCP(false)
	c, err := d.DialContext(ctx, network("tcp", to.Addr()), to.String())
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", to, err)
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("connecting to %s: got a %T", to, c), c.Close())
	}
	return tcp, nil
}

// KeepAlive turns keepalive on for a connection that was dialled.
func KeepAlive(c *net.TCPConn) error { return c.SetKeepAliveConfig(keepAlive()) }

// Reset closes a connection with RST instead of FIN and drops what is queued,
// so that the peer cannot take a cut stream for a whole one (RFC 9293 §3.10.5).
func Reset(c *net.TCPConn) error {
	return errors.Join(c.SetLinger(0), c.Close())
}

// Local returns the address a connection has on this machine, unmapped.
func Local(c net.Conn) netip.AddrPort { return addrPort(c.LocalAddr()) }

// Remote returns the address of a connection's peer, unmapped.
func Remote(c net.Conn) netip.AddrPort { return addrPort(c.RemoteAddr()) }

func addrPort(a net.Addr) netip.AddrPort {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	}
	return Unmap(ap)
}

// Unmap returns an address and port with an IPv4-mapped IPv6 address turned
// into the IPv4 address it stands for.
func Unmap(ap netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

func network(protocol string, a netip.Addr) string {
	if a.Unmap().Is4() {
		return protocol + "4"
	}
	return protocol + "6"
}
