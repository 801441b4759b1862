//go:build !linux

package netio

import "net"

// pumpBuffer is the size of the buffer that a Pump has, in bytes.
const pumpBuffer = 32 << 10

// Pump carries bytes from one TCP connection to another, through a buffer of
// its own on this system. A receiver that does not read stops the sender.
//
// A Pump is used by one goroutine.
type Pump struct {
	src, dst *net.TCPConn
	buf      []byte
	ready    int
}

// NewPump returns a pump from src to dst.
func NewPump(dst, src *net.TCPConn) (*Pump, error) {
	return &Pump{src: src, dst: dst, buf: make([]byte, pumpBuffer)}, nil
}

// Wait blocks until src has bytes. It returns io.EOF when src has sent its FIN
// and everything before it is carried, and otherwise src's error.
func (p *Pump) Wait() error {
	n, err := p.src.Read(p.buf)
	p.ready = n
	if n > 0 {
		return nil
	}
	return err
}

// Move writes to dst what Wait found and returns the number of bytes. Its error
// is dst's.
func (p *Pump) Move() (int64, error) {
	n, err := p.dst.Write(p.buf[:p.ready])
	return int64(n), err
}
