//go:build !linux

package netio

import (
	"net"
	"net/netip"
)

// Datagrams is a UDP socket. On this system it receives and sends one datagram
// with one system call.
//
// Any goroutine may send; one at a time may receive.
type Datagrams struct {
	*net.UDPConn

	batches *Batches
}

// NewDatagrams returns the socket c with batches from a pool.
func NewDatagrams(c *net.UDPConn, batches *Batches) (*Datagrams, error) {
	return &Datagrams{c, batches}, nil
}

// Receive blocks until there is a datagram, an ICMP error or the read deadline.
// The batch holds one; it is the caller's until its Release.
func (d *Datagrams) Receive() (*Batch, error) {
	b := d.batches.get()
	n, from, err := d.ReadFromUDPAddrPort(b.data[0][Room:])
	if err != nil {
		b.Release()
		return nil, err
	}
	b.n, b.from = n, Unmap(from)
	return b, nil
}

// Send sends entries i to j (exclusive) of a batch to an address; on a connected
// socket, to no address. It returns how many entries it has sent; an error is
// that of the next one.
func (d *Datagrams) Send(b *Batch, i, j int, to netip.AddrPort) (sent int, err error) {
	for k := i; k < j && err == nil; k++ {
		if to.IsValid() {
			_, err = d.WriteToUDPAddrPort(b.Datagram(k), to)
		} else {
			_, err = d.Write(b.Datagram(k))
		}
		if err == nil {
			sent++
		}
	}
	return sent, err
}

// Batch is one entry, a datagram, with Room bytes before it that the owner may
// write. It is used by one goroutine.
type Batch struct {
	batches *Batches
	n       int
	from    netip.AddrPort
	data    [1][]byte
}

func newBatch(batches *Batches) *Batch {
	return &Batch{batches: batches, data: [1][]byte{make([]byte, Room+DatagramSize)}}
}

// Len returns the number of entries.
func (b *Batch) Len() int { return 1 }

// Datagram returns the bytes of entry i.
func (b *Batch) Datagram(int) []byte { return b.data[0][Room : Room+b.n] }

// Segment returns the size of each datagram but the last one in entry i, if that
// is a train, in bytes; else 0: on this system there are no trains.
func (b *Batch) Segment(int) int { return 0 }

// From returns the sender of entry i, unmapped.
func (b *Batch) From(int) netip.AddrPort { return b.from }
