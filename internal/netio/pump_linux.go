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

// spliceFrom is how many bytes are worth a pipe: fewer are copied with less
// system calls than splice(2) takes.
const spliceFrom = BufferSize / 2

// Pump carries bytes from one TCP connection to another.
//
// It first waits until bytes are there and then moves exactly those: few
// through a buffer, many with splice(2) through a pipe, so that they are never
// copied to user space. Both are given back afterwards. So a quiet direction
// holds neither buffer nor pipe, every step is known to the caller (one endless
// copy would tell nobody that data flows), and a receiver that does not read
// stops the sender.
//
// A Pump is used by one goroutine.
type Pump struct {
	src, dst *net.TCPConn
	raw      syscall.RawConn
	buffers  *Buffers
	limited  io.LimitedReader
	// bulk says that a whole buffer was full, so that more is to be expected.
	bulk bool
	// buf is held from the arrival of bytes until there are none. ready, copied
	// and wait are the result of the last look at src: how many bytes there are,
	// and whether they are in buf or still in the kernel.
	buf    *[BufferSize]byte
	ready  int
	copied bool
	wait   error
	look   func(fd uintptr) bool
}

// NewPump returns a pump from src to dst.
func NewPump(dst, src *net.TCPConn, buffers *Buffers) (*Pump, error) {
	raw, err := src.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &Pump{src: src, dst: dst, raw: raw, buffers: buffers}
	p.look = p.lookAt
	return p, nil
}

// Wait blocks until src has bytes. It returns io.EOF when src has sent its FIN
// and everything before it is carried, and otherwise src's error.
func (p *Pump) Wait() error {
	if err := p.raw.Read(p.look); err != nil {
		p.release()
		return err
	}
	return p.wait
}

// Move writes to dst what Wait found and returns the number of bytes. Its error
// is dst's.
func (p *Pump) Move() (int64, error) {
	if !p.copied {
		p.limited = io.LimitedReader{R: p.src, N: int64(p.ready)}
		return p.dst.ReadFrom(&p.limited)
	}
	n, err := p.dst.Write(p.buf[:p.ready])
	return int64(n), err
}

func (p *Pump) release() {
	if p.buf != nil {
		p.buffers.put(p.buf)
		p.buf = nil
	}
}

func (p *Pump) lookAt(fd uintptr) bool {
	p.ready, p.copied, p.wait = 0, false, nil
	if p.bulk {
		n, err := unix.IoctlGetInt(int(fd), unix.SIOCINQ)
		if err == nil && n >= spliceFrom {
			p.ready = min(n, pumpChunk)
			p.release()
			return true
		}
		// With nothing queued the stream may only be slow: the next look decides.
		p.bulk = err == nil && n == 0
	}
	return p.read(int(fd))
}

// read takes what is there into a buffer; false: nothing is there yet.
func (p *Pump) read(fd int) bool {
	if p.buf == nil {
		p.buf = p.buffers.get()
	}
	n, err := unix.Read(fd, p.buf[:])
	for err == unix.EINTR {
		n, err = unix.Read(fd, p.buf[:])
	}
	if n > 0 {
		p.ready, p.copied, p.bulk = n, true, p.bulk || n == BufferSize
		return true
	}
	p.release()
	switch {
	case err == unix.EAGAIN:
		return false
	case err != nil:
		p.wait = os.NewSyscallError("read", err)
	default:
		p.wait = io.EOF
	}
	return true
}
