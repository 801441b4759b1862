package netio

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// udpPair returns a socket at a loopback address and one connected to it.
func udpPair(t *testing.T, address string) (listening, dialled *Datagrams) {
	t.Helper()
	l, err := ListenUDP(netip.AddrPortFrom(netip.MustParseAddr(address), 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c, err := DialUDP(l.LocalAddr().(*net.UDPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	var batches Batches
	if listening, err = NewDatagrams(l, &batches); err != nil {
		t.Fatal(err)
	}
	if dialled, err = NewDatagrams(c, &batches); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*Datagrams{listening, dialled} {
		if err := d.SetDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
	}
	return listening, dialled
}

// payloads returns a datagram of each size, all different.
func payloads(sizes ...int) [][]byte {
	all := make([][]byte, len(sizes))
	for i, n := range sizes {
		all[i] = bytes.Repeat([]byte{byte('a' + i%26)}, n)
	}
	return all
}

// readEach reads datagrams one by one from a plain socket.
func readEach(t *testing.T, c *net.UDPConn, datagrams int) (got [][]byte) {
	t.Helper()
	for range datagrams {
		buf := make([]byte, DatagramSize)
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("after %d of %d datagrams: %v", len(got), datagrams, err)
		}
		got = append(got, buf[:n])
	}
	return got
}

// TestDatagramsKeepBoundaries carries datagrams from a client to a member as a
// relay does, and back. Neither end knows of batches or trains.
func TestDatagramsKeepBoundaries(t *testing.T) {
	cases := map[string]struct {
		reason string
		sizes  []int
	}{
		"One":        {reason: "a datagram alone", sizes: []int{100}},
		"Empty":      {reason: "datagrams of no length count (UD-05)", sizes: []int{0, 0, 5, 0}},
		"Equal":      {reason: "equal ones may go as a train", sizes: []int{100, 100, 100, 100, 100, 100}},
		"LastShort":  {reason: "a train ends with a shorter one", sizes: []int{100, 100, 30, 100, 100, 30}},
		"Growing":    {reason: "a longer one begins another train", sizes: []int{10, 20, 20, 30, 30, 30}},
		"EmptyAfter": {reason: "an empty one is in no train", sizes: []int{100, 100, 0, 100}},
		"Long":       {reason: "longer than a train's", sizes: []int{1472, 1472, 1473, 1473, 9000, 9000}},
		"Largest":    {reason: "the largest that there is for IPv6", sizes: []int{65487, 1, 65487}},
		"Many":       {reason: "more than a batch", sizes: slices.Repeat([]int{200}, 3*BatchSize+1)},
	}
	for name, tc := range cases {
		for _, address := range []string{"127.0.0.1", "::1"} {
			t.Run(name+"/"+address, func(t *testing.T) {
				front, client := udpPair(t, address)
				member, upstream := udpPair(t, address)
				want := payloads(tc.sizes...)
				for _, b := range want {
					if _, err := client.Write(b); err != nil {
						t.Fatal(err)
					}
				}
				plainly(t, member)
				plainly(t, client)
				relayAll(t, front, upstream, len(want), netip.AddrPort{})
				got := readEach(t, member.UDPConn, len(want))
				if !same(want, got) {
					t.Errorf("%s: the member got %v, want %v", tc.reason, outline(got), outline(want))
				}
				back := Unmap(upstream.LocalAddr().(*net.UDPAddr).AddrPort())
				for _, b := range want {
					if _, err := member.WriteToUDPAddrPort(b, back); err != nil {
						t.Fatal(err)
					}
				}
				relayAll(t, upstream, front, len(want), Local(client))
				got = readEach(t, client.UDPConn, len(want))
				if !same(want, got) {
					t.Errorf("%s: the client got %v, want %v", tc.reason, outline(got), outline(want))
				}
			})
		}
	}
}

func same(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// outline tells datagrams by their first byte and length.
func outline(all [][]byte) (text []string) {
	for _, b := range all {
		text = append(text, fmt.Sprintf("%.1s%d", b, len(b)))
	}
	return text
}

// plainly makes the kernel hand out each datagram by itself again.
func plainly(t *testing.T, d *Datagrams) {
	t.Helper()
	var opt error
	if err := d.raw.Control(func(fd uintptr) { opt = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_GRO, 0) }); err != nil || opt != nil {
		t.Fatal(err, opt)
	}
}

func relayAll(t *testing.T, from, to *Datagrams, datagrams int, address netip.AddrPort) {
	t.Helper()
	for left := uint64(datagrams); left > 0; {
		b, err := from.Receive()
		if err != nil {
			t.Fatalf("%d datagrams are missing: %v", left, err)
		}
		if n, err := to.Send(b, 0, b.Len(), address); n != b.Len() || err != nil {
			t.Fatalf("sent %d of %d entries: %v", n, b.Len(), err)
		}
		n, _ := b.Size(0, b.Len())
		left -= n
		b.Release()
	}
}

// TestDatagramsTakeTrains has a sender that sends trains itself, as QUIC stacks
// do: the receiver sees each as one entry, and apart they are what was sent.
func TestDatagramsTakeTrains(t *testing.T) {
	front, client := udpPair(t, "127.0.0.1")
	train := []byte("aaaabbbbccccdd")
	var opt error
	if err := client.raw.Control(func(fd uintptr) { opt = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, 4) }); err != nil || opt != nil {
		t.Fatal(err, opt)
	}
	if _, err := client.Write(train); err != nil {
		t.Fatal(err)
	}
	b, err := front.Receive()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if b.Len() != 1 || b.Segment(0) != 4 || !bytes.Equal(b.Datagram(0), train) || b.From(0) != Local(client) {
		t.Fatalf("%d entries, the first %q of %d from %v; want the train of 4", b.Len(), b.Datagram(0), b.Segment(0), b.From(0))
	}
	if datagrams, length := b.Size(0, 1); datagrams != 4 || length != uint64(len(train)) {
		t.Errorf("counted %d datagrams of %d bytes in all; want 4 of %d", datagrams, length, len(train))
	}
	want := [][]byte{[]byte("aaaa"), []byte("bbbb"), []byte("cccc"), []byte("dd")}
	for name, send := range map[string]func(*Datagrams, *Batch) (int, error){
		"Together": func(d *Datagrams, b *Batch) (int, error) { return d.Send(b, 0, 1, netip.AddrPort{}) },
		"Apart":    func(d *Datagrams, b *Batch) (int, error) { return d.sendApart(b, 0, 1, netip.AddrPort{}) },
	} {
		member, upstream := udpPair(t, "127.0.0.1")
		plainly(t, member)
		if n, err := send(upstream, b); n != 1 || err != nil {
			t.Errorf("%s: sent %d entries: %v", name, n, err)
		}
		if diff := cmp.Diff(want, readEach(t, member.UDPConn, len(want))); diff != "" {
			t.Errorf("%s: the member got (-want +got):\n%s", name, diff)
		}
	}
}

// TestDatagramsFallBack: a device that takes no train gets single datagrams.
func TestDatagramsFallBack(t *testing.T) {
	front, client := udpPair(t, "127.0.0.1")
	member, upstream := udpPair(t, "127.0.0.1")
	plainly(t, member)
	// Without checksums there is no way to make datagrams of a train.
	var opt error
	if err := upstream.raw.Control(func(fd uintptr) { opt = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1) }); err != nil || opt != nil {
		t.Fatal(err, opt)
	}
	want := payloads(50, 50, 50, 20, 0, 60)
	for _, b := range want {
		if _, err := client.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	relayAll(t, front, upstream, len(want), netip.AddrPort{})
	if diff := cmp.Diff(want, readEach(t, member.UDPConn, len(want))); diff != "" {
		t.Errorf("the member got (-want +got):\n%s", diff)
	}
}

func TestDatagramsTellErrors(t *testing.T) {
	front, client := udpPair(t, "127.0.0.1")
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	b, err := front.Receive()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	if err := front.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := front.Receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("receiving gave %v, want the deadline", err)
	}
	_ = front.Close()
	if _, err := front.Receive(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("receiving gave %v, want closed", err)
	}
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Receive(); CauseOf(err) != Refused {
		t.Errorf("receiving gave %v, want the ICMP error", err)
	}
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Send(b, 0, 1, netip.AddrPort{}); n != 0 || CauseOf(err) != Refused {
		t.Errorf("sending gave %d, %v; want the ICMP error", n, err)
	}
}

func TestDatagramsAllocateNothing(t *testing.T) {
	front, client := udpPair(t, "127.0.0.1")
	payload := make([]byte, 100)
	to := Local(client)
	round := func() {
		for range 4 {
			if _, err := client.Write(payload); err != nil {
				t.Fatal(err)
			}
		}
		for left := 4; left > 0; {
			b, err := front.Receive()
			if err != nil {
				t.Fatal(err)
			}
			left -= b.Len()
			if _, err := front.Send(b, 0, b.Len(), to); err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		for left := uint64(4); left > 0; {
			b, err := client.Receive()
			if err != nil {
				t.Fatal(err)
			}
			n, _ := b.Size(0, b.Len())
			left -= n
			b.Release()
		}
	}
	round()
	if got := testing.AllocsPerRun(500, round); got >= 1 {
		t.Errorf("a round allocates %v times", got)
	}
}

func TestSocketAddresses(t *testing.T) {
	for _, text := range []string{"192.0.2.1:80", "[2001:db8::1]:65535", "[fe80::1%7]:1"} {
		want := netip.MustParseAddrPort(text)
		b := &Batch{}
		encode(&b.names[0], want)
		if got := b.From(0); got != want {
			t.Errorf("%v became %v", want, got)
		}
	}
	mapped := netip.MustParseAddrPort("[::ffff:192.0.2.1]:80")
	b := &Batch{}
	encode(&b.names[0], mapped)
	if got := fmt.Sprint(b.From(0)); got != "192.0.2.1:80" {
		t.Errorf("%v became %v", mapped, got)
	}
}
