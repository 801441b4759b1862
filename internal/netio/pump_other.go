//go:build !linux

package netio

import "net"

// Pump carries bytes from one TCP connection to another, on this system through
// a buffer that it holds from Wait to Move. A receiver that does not read stops
// the sender.
//
// A Pump is used by one goroutine.
type Pump struct {
	src, dst *net.TCPConn
	buffers  *Buffers
	buf      *[BufferSize]byte
	ready    int
}

// NewPump returns a pump from src to dst.
func NewPump(dst, src *net.TCPConn, buffers *Buffers) (*Pump, error) {
	return &Pump{src: src, dst: dst, buffers: buffers}, nil
}

// Wait blocks until src has bytes. It returns io.EOF when src has sent its FIN
// and everything before it is carried, and otherwise src's error.
func (p *Pump) Wait() error {
	p.buf = p.buffers.get()
	n, err := p.src.Read(p.buf[:])
	p.ready = n
	if n > 0 {
		return nil
	}
	p.buffers.put(p.buf)
	return err
}

// Move writes to dst what Wait found and returns the number of bytes. Its error
// is dst's.
func (p *Pump) Move() (int64, error) {
	n, err := p.dst.Write(p.buf[:p.ready])
	p.buffers.put(p.buf)
	return int64(n), err
}
