//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/net/ipv4"
)

// datagram is the length of a datagram in bytes.
const datagram = 128

// lossTimeout is when an answer that has not come counts as lost.
const lossTimeout = 50 * time.Millisecond

// exchange sends a batch of datagrams over one flow, waits for all the echoes,
// and so on: what a proxy loses costs it time.
func (c *client) exchange() error {
	to := net.UDPAddrFromAddrPort(c.spec.To[c.n%len(c.spec.To)])
	conn, err := net.DialUDP("udp4", nil, to)
	if err != nil {
		return fmt.Errorf("opening a flow: %w", err)
	}
	defer func() { _ = conn.Close() }()
	p := ipv4.NewPacketConn(conn)
	out, in := newMessages(c.spec.Size), newMessages(c.spec.Size)
	for time.Now().Before(c.until) {
		writeAll(p, out)
		if err := conn.SetReadDeadline(time.Now().Add(lossTimeout)); err != nil {
			return err
		}
		for missing := len(out); missing > 0; {
			n, err := p.ReadBatch(in[:missing], 0)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				c.tally.lost.Add(int64(missing))
				break
			}
			if err != nil {
				return fmt.Errorf("receiving echoes: %w", err)
			}
			missing -= n
			c.tally.count.Add(int64(n))
		}
	}
	return nil
}
