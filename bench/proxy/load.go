//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// loadSpec is one load.
type loadSpec struct {
	Kind string
	// To are the addresses it goes to, in turn.
	To []netip.AddrPort
	// Clients is how many connections, flows or workers there are at a time.
	Clients int
	// Size is the length of an answer in bytes.
	Size int
	// Pause is how long a client waits between its requests.
	Pause time.Duration
	For   time.Duration
}

// The kinds of load.
const (
	streams     = "streams"
	requests    = "requests"
	connections = "connections"
	idling      = "idling"
	datagrams   = "datagrams"
)

// bindAddressNoPort is ip(7)'s IP_BIND_ADDRESS_NO_PORT.
const bindAddressNoPort = 24

// loadResult is what a load came to. Latencies are of single requests.
type loadResult struct {
	Count    int64
	Bytes    int64
	Lost     int64
	Took     time.Duration
	P50, P99 time.Duration
}

// tally is what the clients of one load count together.
type tally struct {
	count, bytes, lost atomic.Int64
}

// generate makes a load and prints its result. An idle one says so once it is
// there, and stays until its input is closed.
func generate(ctx context.Context, spec loadSpec) error {
	clients := make([]*client, spec.Clients)
	var t tally
	for i := range clients {
		clients[i] = &client{spec: spec, n: i, tally: &t}
	}
	if spec.Kind == idling {
		return idle(clients)
	}
	began := time.Now()
	g, ctx := newCrew(ctx)
	for _, c := range clients {
		c.until = began.Add(spec.For)
		g.run(func() error { return c.run(ctx) })
	}
	if err := g.wait(); err != nil {
		return err
	}
	r := loadResult{Count: t.count.Load(), Bytes: t.bytes.Load(), Lost: t.lost.Load(), Took: time.Since(began)}
	var all []time.Duration
	for _, c := range clients {
		all = append(all, c.latencies...)
	}
	slices.Sort(all)
	if len(all) > 0 {
		r.P50, r.P99 = all[len(all)/2], all[len(all)*99/100]
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// client is one connection, flow or worker of a load.
type client struct {
	spec      loadSpec
	n, turn   int
	tally     *tally
	until     time.Time
	latencies []time.Duration
	buf       []byte
}

func (c *client) run(ctx context.Context) error {
	if c.spec.Kind == datagrams {
		return c.exchange()
	}
	if c.spec.Kind == connections {
		for time.Now().Before(c.until) && ctx.Err() == nil {
			if err := c.once(); err != nil {
				return err
			}
		}
		return nil
	}
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if c.spec.Kind == streams {
		return c.stream(conn)
	}
	return c.request(conn)
}

// dial connects from an address that changes with the client, so that no
// address runs out of ports; the port is chosen when the destination is known.
func (c *client) dial() (net.Conn, error) {
	to := c.spec.To[(c.n+c.turn)%len(c.spec.To)]
	c.turn++
	from := netip.AddrFrom4([4]byte{127, 0, 1, byte(1 + c.n%16)})
	d := net.Dialer{
		Timeout: patience, KeepAlive: -1, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)),
		Control: func(_, _ string, raw syscall.RawConn) (err error) {
			if e := raw.Control(func(fd uintptr) {
				err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, bindAddressNoPort, 1)
			}); e != nil {
				return e
			}
			return err
		},
	}
	d.SetMultipathTCP(false)
	return d.Dial("tcp4", to.String())
}

func (c *client) ask(conn net.Conn) error {
	var ask [askSize]byte
	binary.BigEndian.PutUint64(ask[:], uint64(c.spec.Size))
	_, err := conn.Write(ask[:])
	return err
}

func (c *client) take(conn net.Conn) error {
	if c.buf == nil {
		c.buf = make([]byte, min(c.spec.Size, block))
	}
	for left := c.spec.Size; left > 0; {
		n, err := conn.Read(c.buf[:min(left, len(c.buf))])
		left -= n
		if err != nil && left > 0 {
			return fmt.Errorf("reading an answer, %d bytes missing: %w", left, err)
		}
	}
	c.tally.bytes.Add(int64(c.spec.Size))
	c.tally.count.Add(1)
	return nil
}

// stream keeps two answers under way, so that the stream never pauses, and
// takes the last ones to their end: all bytes that were relayed count.
func (c *client) stream(conn net.Conn) error {
	if err := c.ask(conn); err != nil {
		return err
	}
	for time.Now().Before(c.until) {
		if err := c.ask(conn); err != nil {
			return err
		}
		if err := c.take(conn); err != nil {
			return err
		}
	}
	return c.take(conn)
}

func (c *client) request(conn net.Conn) error {
	// Clients that pause are spread evenly over the pause.
	time.Sleep(c.spec.Pause * time.Duration(c.n) / time.Duration(c.spec.Clients))
	for time.Now().Before(c.until) {
		asked := time.Now()
		if err := c.ask(conn); err != nil {
			return err
		}
		if err := c.take(conn); err != nil {
			return err
		}
		took := time.Since(asked)
		c.latencies = append(c.latencies, took)
		if c.spec.Pause > 0 {
			time.Sleep(c.spec.Pause - took)
		}
	}
	return nil
}

// once connects, asks, takes the answer and the end of the connection.
func (c *client) once() error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := c.ask(conn); err != nil {
		return err
	}
	return c.take(conn)
}

// idle opens all connections, sends a request over each and then nothing.
func idle(clients []*client) error {
	for _, c := range clients {
		conn, err := c.dial()
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		if err := c.ask(conn); err != nil {
			return err
		}
		if err := c.take(conn); err != nil {
			return err
		}
		c.buf = nil
	}
	if err := json.NewEncoder(os.Stdout).Encode(loadResult{Count: int64(len(clients))}); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
