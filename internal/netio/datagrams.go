package netio

import "sync"

// DatagramSize is the largest datagram there is (the UDP length field), so a
// buffer of this size truncates none.
const DatagramSize = 65535

// DatagramBuffers lends buffers to Datagrams while these carry one. The zero
// value is usable; many goroutines may share it.
type DatagramBuffers struct{ pool sync.Pool }

func (b *DatagramBuffers) get() *[DatagramSize]byte {
	if buf, ok := b.pool.Get().(*[DatagramSize]byte); ok {
		return buf
	}
	return new([DatagramSize]byte)
}

func (b *DatagramBuffers) put(buf *[DatagramSize]byte) { b.pool.Put(buf) }
