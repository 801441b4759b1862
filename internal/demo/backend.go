//go:build linux

package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// backend is an HTTP server that plays a pod. It says its own name and who
// called, at one port as it sees the caller and at another as the PROXY header
// in front of the request says.
type backend struct {
	name    string
	plain   netip.AddrPort
	proxied netip.AddrPort
	servers []*http.Server
}

// startBackend listens at two free ports of an address.
func startBackend(ctx context.Context, name string, address netip.Addr) (*backend, error) {
	plain, err := listen(ctx, address, 0)
	if err != nil {
		return nil, err
	}
	proxied, err := listen(ctx, address, 0)
	if err != nil {
		_ = plain.Close()
		return nil, err
	}
	b := &backend{name: name}
	b.plain, b.proxied = addressOf(plain), addressOf(proxied)
	b.serve(plain)
	b.serve(announced{proxied})
	return b, nil
}

func addressOf(l net.Listener) netip.AddrPort {
	at, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return netip.AddrPort{} // a TCP listener's address always parses
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

func (b *backend) serve(l net.Listener) {
	server := &http.Server{
		ReadHeaderTimeout: headerPatience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "hello from %s, you are %s\n", b.name, r.RemoteAddr)
		}),
	}
	b.servers = append(b.servers, server)
	go func() { _ = server.Serve(l) }() // until close
}

func (b *backend) close() {
	for _, s := range b.servers {
		_ = s.Close()
	}
}

// headerPatience is how long a caller may take to say what it wants.
const headerPatience = 5 * time.Second

// announced is a listener whose connections begin with a PROXY header.
type announced struct{ net.Listener }

// Accept returns a connection at once; its header is read when it is first used,
// so that a silent caller holds up nobody else.
func (a announced) Accept() (net.Conn, error) {
	c, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &announcedConn{Conn: c, in: bufio.NewReader(c)}, nil
}

// announcedConn is a connection whose remote address is the one in its header.
type announcedConn struct {
	net.Conn
	in     *bufio.Reader
	once   sync.Once
	client netip.AddrPort
	err    error
}

func (c *announcedConn) readHeader() {
	c.once.Do(func() {
		c.err = c.SetReadDeadline(time.Now().Add(headerPatience))
		if c.err == nil {
			c.client, c.err = readHeader(c.in)
		}
		c.err = errors.Join(c.err, c.SetReadDeadline(time.Time{}))
	})
}

// Read returns what follows the header, or why there is none.
func (c *announcedConn) Read(p []byte) (int, error) {
	if c.readHeader(); c.err != nil {
		return 0, c.err
	}
	return c.in.Read(p)
}

// RemoteAddr is the client that the header names, else the caller itself.
func (c *announcedConn) RemoteAddr() net.Addr {
	if c.readHeader(); c.client.IsValid() {
		return net.TCPAddrFromAddrPort(c.client)
	}
	return c.Conn.RemoteAddr()
}
