package netio

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Datagrams reads from a connected UDP socket. A buffer is held only from Next
// to Release, so that quiet sockets hold none, and nothing is allocated for a
// datagram. It is used by one goroutine.
type Datagrams struct {
	raw     syscall.RawConn
	buffers *DatagramBuffers
	buf     *[DatagramSize]byte
	// n and err are the result of the last look.
	n    int
	err  error
	look func(fd uintptr) bool
}

// NewDatagrams returns a reader of a socket.
func NewDatagrams(c *net.UDPConn, buffers *DatagramBuffers) (*Datagrams, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	d := &Datagrams{raw: raw, buffers: buffers}
	d.look = d.lookAt
	return d, nil
}

// Next blocks until a datagram, an ICMP error or the read deadline has come. The
// datagram, which may be empty, is valid until Release, which must follow it
// whatever the error.
func (d *Datagrams) Next() ([]byte, error) {
	if err := d.raw.Read(d.look); err != nil {
		return nil, err
	}
	if d.err != nil {
		return nil, os.NewSyscallError("read", d.err)
	}
	return d.buf[:d.n], nil
}

// Release gives the buffer back, if there is one.
func (d *Datagrams) Release() {
	if d.buf != nil {
		d.buffers.put(d.buf)
		d.buf = nil
	}
}

func (d *Datagrams) lookAt(fd uintptr) bool {
	if d.buf == nil {
		d.buf = d.buffers.get()
	}
	for {
		d.n, d.err = unix.Read(int(fd), d.buf[:])
		switch d.err {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			d.Release()
			return false
		default:
			return true
		}
	}
}
