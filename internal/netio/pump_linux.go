package netio

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pumpChunk bounds one step of a Pump, in bytes: small enough that counters and
// idle clocks follow a fast stream, large enough that system calls do not count.
const pumpChunk = 256 << 10

// Pump carries bytes from one TCP connection to another.
//
// It first waits until bytes are there and then moves exactly those with
// splice(2), through a pipe that is given back afterwards. So the bytes are
// never copied to user space, a quiet direction holds neither buffer nor pipe,
// every step is known to the caller (one endless copy would tell nobody that
// data flows), and a receiver that does not read stops the sender.
//
// A Pump is used by one goroutine.
type Pump struct {
	src, dst *net.TCPConn
	raw      syscall.RawConn
	limited  io.LimitedReader
	// ready and wait are the result of the last look at src.
	ready int
	wait  error
	look  func(fd uintptr) bool
}

// NewPump returns a pump from src to dst.
func NewPump(dst, src *net.TCPConn) (*Pump, error) {
	raw, err := src.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &Pump{src: src, dst: dst, raw: raw}
	p.look = p.lookAt
	return p, nil
}

// Wait blocks until src has bytes. It returns io.EOF when src has sent its FIN
// and everything before it is carried, and otherwise src's error.
func (p *Pump) Wait() error {
	if err := p.raw.Read(p.look); err != nil {
		return err
	}
	return p.wait
}

// Move writes to dst what Wait found and returns the number of bytes. Its error
// is dst's.
func (p *Pump) Move() (int64, error) {
	p.limited = io.LimitedReader{R: p.src, N: int64(p.ready)}
	return p.dst.ReadFrom(&p.limited)
}

func (p *Pump) lookAt(fd uintptr) bool {
	p.ready, p.wait = 0, nil
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
	if err == nil && n > 0 {
		p.ready = min(n, pumpChunk)
		return true
	}
	// Nothing is queued: not yet, never again, or an error?
	var b [1]byte
	n, _, err = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch {
	case err == unix.EAGAIN:
		return false
	case err != nil:
		p.wait = os.NewSyscallError("recvfrom", err)
	case n == 0:
		p.wait = io.EOF
	default:
		p.ready = n
	}
	return true
}
