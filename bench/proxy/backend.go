//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
)

// askSize is the length of a request: a big-endian number, the count of bytes
// that the backend is to answer.
const askSize = 8

// block is the size of one read or write of a stream, in bytes.
const block = 128 << 10

// batch is how many datagrams one system call of the ends takes.
const batch = 32

// backendSpec is where the backend listens, by TCP and UDP.
type backendSpec struct{ At []netip.AddrPort }

// startBackend starts the process that all proxies send to. It listens at
// several addresses, so that the ports of connections to it do not run out.
func (b *bench) startBackend(ctx context.Context) error {
	var addresses []netip.Addr
	for i := range byte(8) {
		addresses = append(addresses, netip.AddrFrom4([4]byte{127, 0, 0, 10 + i}))
	}
	port, err := freePort(addresses...)
	if err != nil {
		return err
	}
	for _, a := range addresses {
		b.members = append(b.members, netip.AddrPortFrom(a, port))
	}
	argv, err := self("backend", backendSpec{b.members})
	if err != nil {
		return err
	}
	if b.backend, err = b.start("backend", argv...); err != nil {
		return err
	}
	if err := b.backend.listens(ctx, b.members[len(b.members)-1]); err != nil {
		b.backend.kill()
		return err
	}
	return nil
}

func serveBackend(ctx context.Context, spec backendSpec) error {
	g, ctx := newCrew(ctx)
	for _, at := range spec.At {
		l, err := net.Listen("tcp4", at.String())
		if err != nil {
			return fmt.Errorf("listening: %w", err)
		}
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
		if err != nil {
			return fmt.Errorf("listening: %w", err)
		}
		if err := c.SetReadBuffer(4 << 20); err != nil {
			return fmt.Errorf("listening: %w", err)
		}
		g.run(func() error { return acceptAll(l) })
		g.run(func() error { return echoAll(c) })
		context.AfterFunc(ctx, func() { _, _ = l.Close(), c.Close() })
	}
	return g.wait()
}

func acceptAll(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			_ = answer(c)
			_ = c.Close()
		}()
	}
}

// answer serves one connection until the client has nothing more to ask.
func answer(c net.Conn) error {
	var ask [askSize]byte
	var bytes []byte
	for {
		if _, err := io.ReadFull(c, ask[:]); err != nil {
			return err
		}
		for left := binary.BigEndian.Uint64(ask[:]); left > 0; {
			n := min(left, block)
			if uint64(len(bytes)) < n {
				bytes = make([]byte, n)
			}
			if _, err := c.Write(bytes[:n]); err != nil {
				return err
			}
			left -= n
		}
	}
}

// echoAll sends every datagram back. An error of one receiver is not its end.
func echoAll(c *net.UDPConn) error {
	p := ipv4.NewPacketConn(c)
	messages := newMessages(datagram)
	for {
		n, err := p.ReadBatch(messages, 0)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		for i := range n {
			messages[i].Buffers[0] = messages[i].Buffers[0][:messages[i].N]
		}
		writeAll(p, messages[:max(n, 0)])
		for i := range max(n, 0) {
			messages[i].Buffers[0] = messages[i].Buffers[0][:datagram]
		}
	}
}

// writeAll sends messages until one of them fails; what is lost shows in the
// client's count.
func writeAll(p *ipv4.PacketConn, messages []ipv4.Message) {
	for len(messages) > 0 {
		n, err := p.WriteBatch(messages, 0)
		if err != nil {
			return
		}
		messages = messages[n:]
	}
}

func newMessages(size int) []ipv4.Message {
	messages := make([]ipv4.Message, batch)
	for i := range messages {
		messages[i].Buffers = [][]byte{make([]byte, size)}
	}
	return messages
}
