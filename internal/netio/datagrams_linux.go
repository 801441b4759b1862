package netio

import (
	"cmp"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Datagrams is a UDP socket that receives and sends many datagrams with one
// system call: recvmmsg(2) and sendmmsg(2). Where the kernel can, it also takes
// a train of equal datagrams for one, and sends it as one (UDP_GRO and
// UDP_SEGMENT, udp(7)); what leaves are the same datagrams that came.
//
// Any goroutine may send; one at a time may receive.
type Datagrams struct {
	*net.UDPConn

	raw     syscall.RawConn
	batches *Batches
	got     *Batch
	err     error
	look    func(fd uintptr) bool
}

// NewDatagrams returns the socket c with batches from a pool.
func NewDatagrams(c *net.UDPConn, batches *Batches) (*Datagrams, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	d := &Datagrams{UDPConn: c, raw: raw, batches: batches}
	d.look = d.lookAt
	// An older kernel hands out every datagram by itself.
	return d, raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_GRO, 1) })
}

// Receive blocks until there is a datagram, an ICMP error or the read deadline.
// The batch holds at least one; it is the caller's until its Release. No batch
// is held while nothing comes.
func (d *Datagrams) Receive() (*Batch, error) {
	if err := d.raw.Read(d.look); err != nil {
		return nil, err
	}
	return d.got, d.err
}

func (d *Datagrams) lookAt(fd uintptr) bool {
	d.got, d.err = d.batches.get(), nil
	err := d.got.receive(fd)
	if err == 0 {
		return true
	}
	d.got.Release()
	d.got = nil
	if err == unix.EAGAIN {
		return false
	}
	d.err = os.NewSyscallError("recvmmsg", err)
	return true
}

// Send sends entries i to j (exclusive) of a batch to an address; on a connected
// socket, to no address. It returns how many entries it has sent; an error is
// that of the next one.
func (d *Datagrams) Send(b *Batch, i, j int, to netip.AddrPort) (sent int, err error) {
	for sent < j-i && err == nil {
		b.prepare(i+sent, j, to)
		if err = d.raw.Write(b.write); err != nil {
			break
		}
		for _, entries := range b.entries[:b.sent] {
			sent += entries
		}
		if b.errno == 0 {
			continue
		}
		// Nothing was sent: sendmmsg gives the error of the first message alone.
		err = os.NewSyscallError("sendmmsg", b.errno)
		if unfit(b.errno) && (b.entries[0] > 1 || b.Segment(i+sent) > 0) {
			var n int
			n, err = d.sendApart(b, i+sent, i+sent+b.entries[0], to)
			sent += n
		}
	}
	return sent, err
}

// unfit tells whether an error may be due to sending a train as one: it may be
// too long for the kernel, or its datagrams for the device.
func unfit(e syscall.Errno) bool {
	return e == unix.EINVAL || e == unix.EIO || e == unix.EMSGSIZE || e == unix.ENOPROTOOPT
}

// sendApart sends each datagram of entries i to j by itself.
func (d *Datagrams) sendApart(b *Batch, i, j int, to netip.AddrPort) (sent int, err error) {
	for ; i < j; i++ {
		rest := b.Datagram(i)
		size := cmp.Or(b.Segment(i), len(rest))
		for first := true; first || len(rest) > 0; first = false {
			one := rest[:min(size, len(rest))]
			if to.IsValid() {
				_, err = d.WriteToUDPAddrPort(one, to)
			} else {
				_, err = d.Write(one)
			}
			if err != nil {
				return sent, err
			}
			rest = rest[len(one):]
		}
		sent++
	}
	return sent, nil
}

// mmsghdr is the kernel's struct of that name (recvmmsg(2)).
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

const (
	// trainDatagram bounds the datagrams that are sent as a train: longer ones
	// may not fit the device, and gain little.
	trainDatagram = 1472
	// trainSize bounds a train: with its headers it is one IP packet to the kernel.
	trainSize = 65000
)

// controlSize is room for one control message with an int.
const controlSize = 4 * 8

// message is a control message, aligned as the kernel's struct cmsghdr is.
type message [controlSize / 8]uint64

func (c *message) bytes() *[controlSize]byte { return (*[controlSize]byte)(unsafe.Pointer(c)) }

// Batch is up to BatchSize entries, each of them a datagram or a train of equal
// ones from one sender, with Room bytes before it that the owner may write. It
// is used by one goroutine.
type Batch struct {
	batches *Batches
	count   int

	in, out       [BatchSize]mmsghdr
	inVec, outVec [BatchSize]unix.Iovec
	names         [BatchSize]unix.RawSockaddrInet6
	inCtl, outCtl [BatchSize]message
	to            unix.RawSockaddrInet6
	data          [BatchSize][]byte
	// entries are how many each message of a write has.
	entries       [BatchSize]int
	sending, sent int
	errno         syscall.Errno
	write         func(fd uintptr) bool
}

func newBatch(batches *Batches) *Batch {
	b := &Batch{batches: batches}
	slab := make([]byte, BatchSize*(Room+DatagramSize))
	for i := range b.in {
		b.data[i], slab = slab[:Room+DatagramSize:Room+DatagramSize], slab[Room+DatagramSize:]
		b.inVec[i].Base = &b.data[i][Room]
		b.inVec[i].SetLen(DatagramSize)
		h := &b.in[i].hdr
		h.Name = (*byte)(unsafe.Pointer(&b.names[i]))
		h.Iov, h.Control = &b.inVec[i], &b.inCtl[i].bytes()[0]
		h.SetIovlen(1)
		b.outVec[i].Base = &b.data[i][Room]
		c := (*unix.Cmsghdr)(unsafe.Pointer(&b.outCtl[i]))
		c.Level, c.Type = unix.SOL_UDP, unix.UDP_SEGMENT
		c.SetLen(unix.CmsgLen(2))
	}
	b.write = b.writeTo
	return b
}

func (b *Batch) receive(fd uintptr) syscall.Errno {
	for i := range b.in {
		b.in[i].hdr.Namelen = uint32(unsafe.Sizeof(b.names[i]))
		b.in[i].hdr.SetControllen(controlSize)
	}
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.in[0])), BatchSize, 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		b.count = 0
		if errno == 0 {
			b.count = int(n)
		}
		return errno
	}
}

// prepare makes the next write one of entries i to j. Equal datagrams become
// trains, which cost the kernel little more than one of them.
func (b *Batch) prepare(i, j int, to netip.AddrPort) {
	b.sending, b.sent, b.errno = 0, 0, 0
	var name *byte
	var length uint32
	if to.IsValid() {
		name, length = (*byte)(unsafe.Pointer(&b.to)), encode(&b.to, to)
	}
	for i < j {
		entries, size := b.train(i, j), b.Segment(i)
		if entries > 1 {
			size = int(b.in[i].n)
		}
		m := b.sending
		b.sending++
		b.entries[m] = entries
		h := &b.out[m].hdr
		h.Name, h.Namelen = name, length
		h.Iov = &b.outVec[i]
		h.SetIovlen(entries)
		for range entries {
			b.outVec[i].SetLen(int(b.in[i].n))
			i++
		}
		h.Control = nil
		h.SetControllen(0)
		if size > 0 {
			ctl := b.outCtl[m].bytes()
			*(*uint16)(unsafe.Pointer(&ctl[unix.CmsgLen(0)])) = uint16(size)
			h.Control = &ctl[0]
			h.SetControllen(unix.CmsgSpace(2))
		}
	}
}

// train returns how many entries from i on may be sent as one: all as long as
// the first, but for the last, which may be shorter (udp(7), UDP_SEGMENT).
func (b *Batch) train(i, j int) (entries int) {
	size := b.in[i].n
	if size == 0 || size > trainDatagram || b.Segment(i) > 0 {
		return 1
	}
	total := size
	for k := i + 1; k < j; k++ {
		n := b.in[k].n
		if total += n; n == 0 || n > size || total > trainSize || b.Segment(k) > 0 {
			return k - i
		}
		if n < size {
			return k - i + 1
		}
	}
	return j - i
}

func (b *Batch) writeTo(fd uintptr) bool {
	for {
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&b.out[0])), uintptr(b.sending), 0, 0, 0)
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		case 0:
			b.sent = int(n)
		default:
			b.errno = errno
		}
		return true
	}
}

// Len returns the number of entries.
func (b *Batch) Len() int { return b.count }

// Datagram returns the bytes of entry i.
func (b *Batch) Datagram(i int) []byte { return b.data[i][Room : Room+int(b.in[i].n)] }

// Segment returns the size of each datagram but the last one in entry i, if that
// is a train, in bytes; else 0.
func (b *Batch) Segment(i int) int {
	h := &b.in[i].hdr
	if uint64(h.Controllen) < uint64(unix.CmsgLen(4)) { //nolint:unconvert // it has 32 bits on some systems
		return 0
	}
	c := (*unix.Cmsghdr)(unsafe.Pointer(&b.inCtl[i]))
	if c.Level != unix.SOL_UDP || c.Type != unix.UDP_GRO {
		return 0
	}
	size := int(*(*int32)(unsafe.Pointer(&b.inCtl[i].bytes()[unix.CmsgLen(0)])))
	if size >= int(b.in[i].n) {
		return 0
	}
	return size
}

// From returns the sender of entry i, unmapped. A zone is a number.
func (b *Batch) From(i int) netip.AddrPort {
	name := &b.names[i]
	if name.Family == unix.AF_INET {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), port(&v4.Port))
	}
	a := netip.AddrFrom16(name.Addr).Unmap()
	if name.Scope_id != 0 && a.Is6() {
		a = a.WithZone(strconv.FormatUint(uint64(name.Scope_id), 10))
	}
	return netip.AddrPortFrom(a, port(&name.Port))
}

// port reads or finds a port in network byte order.
func port(p *uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(p))
	return uint16(b[0])<<8 | uint16(b[1])
}

func setPort(p *uint16, value uint16) {
	b := (*[2]byte)(unsafe.Pointer(p))
	b[0], b[1] = byte(value>>8), byte(value)
}

// encode writes a socket address and returns its length.
func encode(name *unix.RawSockaddrInet6, to netip.AddrPort) uint32 {
	if a := to.Addr(); a.Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		*v4 = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: a.As4()}
		setPort(&v4.Port, to.Port())
		return unix.SizeofSockaddrInet4
	}
	*name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Addr: to.Addr().As16()}
	if scope, err := strconv.ParseUint(to.Addr().Zone(), 10, 32); err == nil {
		name.Scope_id = uint32(scope)
	}
	setPort(&name.Port, to.Port())
	return unix.SizeofSockaddrInet6
}
