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
const keptBatches = 16

// Batches lends Batches to sockets while these carry datagrams: one is 2 MiB,
// of which only what was written is resident. That is too large to be made anew
// after every collection, so some are kept; what more there is, the collector
// may take. The zero value is usable; many goroutines may share it.
type Batches struct {
	mu   sync.Mutex
	kept []*Batch
	more sync.Pool
}

func (p *Batches) get() *Batch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.kept) - 1; last >= 0 {
		b := p.kept[last]
		p.kept = p.kept[:last]
		return b
	}
	if b, ok := p.more.Get().(*Batch); ok {
		return b
	}
	return newBatch(p)
}

// Release gives a batch back. Neither it nor its bytes may be used afterwards.
func (b *Batch) Release() {
	p := b.batches
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.kept) < keptBatches {
		p.kept = append(p.kept, b)
		return
	}
	p.more.Put(b)
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
