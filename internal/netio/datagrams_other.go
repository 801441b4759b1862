//go:build !linux

package netio

import "net"

// Datagrams reads from a connected UDP socket, on this system with a buffer that
// it holds while it waits. It is used by one goroutine.
type Datagrams struct {
	conn    *net.UDPConn
	buffers *DatagramBuffers
	buf     *[DatagramSize]byte
}

// NewDatagrams returns a reader of a socket.
func NewDatagrams(c *net.UDPConn, buffers *DatagramBuffers) (*Datagrams, error) {
	return &Datagrams{conn: c, buffers: buffers}, nil
}

// Next blocks until a datagram, an ICMP error or the read deadline has come. The
// datagram, which may be empty, is valid until Release, which must follow it
// whatever the error.
func (d *Datagrams) Next() ([]byte, error) {
	d.buf = d.buffers.get()
	n, err := d.conn.Read(d.buf[:])
	if err != nil {
		return nil, err
	}
	return d.buf[:n], nil
}

// Release gives the buffer back, if there is one.
func (d *Datagrams) Release() {
	if d.buf != nil {
		d.buffers.put(d.buf)
		d.buf = nil
	}
}
