package proxy

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// minOpenFiles is assumed where the limit of open files cannot be read.
	minOpenFiles = 1024
	// spareFiles are kept for listeners, checks, logs and the rest of the process.
	spareFiles = 100
	// filesPerConnection is two sockets and half of a pipe: pipes are held only
	// while bytes move, and without one bytes are copied instead.
	filesPerConnection = 3
	filesPerFlow       = 1
	// filePause is how long a listener waits when file descriptors are short.
	filePause = 50 * time.Millisecond
)

// gate admits a limited number of connections. Who comes too late waits, or is
// refused.
type gate struct {
	mu      sync.Mutex
	limit   int // 0: none
	refuse  bool
	used    int
	waiting int
	freed   chan struct{}
}

func newGate() *gate { return &gate{freed: make(chan struct{})} }

// admission is what a gate says.
type admission int

const (
	admitted admission = iota
	refused
	// closed: who waited need not any more.
	closed
)

// enter takes a slot, waiting for one if need be and allowed. Only who is
// admitted has one. The wait ends when done is closed. queued is called once,
// before the first wait.
func (g *gate) enter(done <-chan struct{}, queued func()) admission {
	for first := true; ; first = false {
		g.mu.Lock()
		switch {
		case g.limit == 0 || g.used < g.limit:
			g.used++
			g.mu.Unlock()
			return admitted
		case g.refuse:
			g.mu.Unlock()
			return refused
		}
		freed := g.freed
		g.waiting++
		g.mu.Unlock()
		if first {
			queued()
		}
		select {
		case <-freed:
		case <-done:
			return closed
		}
	}
}

// leave gives a slot back.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.used--
	g.wake()
}

// setLimit changes the limit, and what becomes of those beyond: raising it
// admits who waits, refusing ends the wait, lowering it ends nothing. 0 means
// no limit.
func (g *gate) setLimit(limit int, refuse bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit, g.refuse = limit, refuse
	g.wake()
}

func (g *gate) wake() {
	if g.waiting == 0 {
		return
	}
	g.waiting = 0
	close(g.freed)
	g.freed = make(chan struct{})
}

// budget counts the file descriptors that relaying may use in the whole process.
type budget struct {
	total int64
	used  atomic.Int64
}

func newBudget(openFiles uint64) *budget {
	const most = 1 << 40
	return &budget{total: max(int64(min(openFiles, most))-spareFiles, filesPerConnection)}
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.total {
		return true
	}
	b.used.Add(-n)
	return false
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// pause waits, or returns false as soon as done is closed.
func pause(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}
