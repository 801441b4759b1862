package netio

import "sync"

const (
	// BatchSize is how many entries a Batch has.
	BatchSize = 32
	// DatagramSize is the largest datagram there is (the UDP length field), so
	// a buffer of this size truncates none.
	DatagramSize = 65535
	// Room is how many bytes the owner of a Batch may write before an entry:
	// a header goes out with the payload without copying.
	Room = 128
)

// keptBatches is how many batches that nobody uses are kept.
const keptBatches = 4

// Batches lends Batches to sockets while these carry datagrams: one is 2 MiB,
// of which only what was written is resident. So they are too large to be left
// to the garbage collector time and again. The zero value is usable; many
// goroutines may share it.
type Batches struct {
	mu   sync.Mutex
	free []*Batch
}

func (p *Batches) get() *Batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.free) - 1; last >= 0 {
		b := p.free[last]
		p.free = p.free[:last]
		return b
	}
	return newBatch(p)
}

// Release gives a batch back. Neither it nor its bytes may be used afterwards.
func (b *Batch) Release() {
	p := b.batches
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < keptBatches {
		p.free = append(p.free, b)
	}
}

// Entry returns entry i with the Room bytes before it.
func (b *Batch) Entry(i int) []byte { return b.data[i][:Room+len(b.Datagram(i))] }

// Size returns how many datagrams, and bytes of payload, entries i to j
// (exclusive) are.
func (b *Batch) Size(i, j int) (datagrams, bytes uint64) {
	for ; i < j; i++ {
		n, segment := len(b.Datagram(i)), b.Segment(i)
		bytes += uint64(n)
		datagrams++
		if segment > 0 {
			datagrams += uint64((n - 1) / segment)
		}
	}
	return datagrams, bytes
}
