package netio

import "sync"

// BufferSize is how many bytes a Pump copies in one step at most: more of them
// are moved inside the kernel where it can do that.
const BufferSize = 16 << 10

// Buffers lends buffers to Pumps while these carry bytes. The zero value is
// usable; many goroutines may share it.
type Buffers struct{ pool sync.Pool }

func (b *Buffers) get() *[BufferSize]byte {
	if buf, ok := b.pool.Get().(*[BufferSize]byte); ok {
		return buf
	}
	return new([BufferSize]byte)
}

func (b *Buffers) put(buf *[BufferSize]byte) { b.pool.Put(buf) }
