// The race detector needs memory of its own.

//go:build !race

package proxy

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fairlead-lb/fairlead/internal/netio"
)

// idleBudget is what an idle connection may cost in this process, in bytes: a
// hundred thousand of them in one GiB.
const idleBudget = 1 << 30 / 100_000

// TestTB04IdleConnectionsAreCheap opens as many idle connections as the limit of
// open files allows (three descriptors each here: the client's and the proxy's
// two), has each carry a byte, and measures what one more costs. Clients are bare
// descriptors and members never accept, so what grows is the proxy's (incident 27).
func TestTB04IdleConnectionsAreCheap(t *testing.T) {
	files, err := netio.OpenFiles()
	if err != nil {
		t.Fatal(err)
	}
	const most = 3000
	count := min(most, int(min(files, 1<<30)-spareFiles-1000)/3)
	r := newRig(t, Config{DrainTimeout: -1})
	var members []netip.AddrPort
	var listeners []*net.TCPListener
	for range 4 {
		at := netip.AddrPortFrom(testAddress(t), 8080)
		l, err := netio.ListenTCP(at)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		members = append(members, at)
	}
	r.set(listener(tcpPort(8080), members...))
	var clients []int
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // resets whom it never accepted
		}
		for _, fd := range clients {
			_ = syscall.Close(fd)
		}
		eventually(t, "all connections are over", func() bool { return r.port(tcpPort(8080)).Active == 0 })
	}()
	open := func(n int) memory {
		for len(clients) < n {
			fd := connectBare(t, r.at(8080))
			clients = append(clients, fd)
			if _, err := syscall.Write(fd, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "every connection has carried its byte", func() bool {
			s := r.port(tcpPort(8080))
			carried := uint64(0)
			for _, m := range s.Members {
				carried += m.ToMember
			}
			return carried == uint64(n)
		})
		return measure(t)
	}
	first := open(count / 4)
	last := open(count)
	grown := last.minus(first).per(count - count/4)
	t.Logf("each of %d connections costs %d bytes of heap, %d of stacks, %d resident", count, grown.heap, grown.stacks, grown.resident)
	if got := grown.heap + grown.stacks; got > idleBudget {
		t.Errorf("an idle connection costs %d bytes, more than %d", got, idleBudget)
	}
}

// memory is what a process uses, in bytes.
type memory struct{ heap, stacks, resident int }

func (m memory) minus(o memory) memory {
	return memory{m.heap - o.heap, m.stacks - o.stacks, m.resident - o.resident}
}

func (m memory) per(n int) memory { return memory{m.heap / n, m.stacks / n, m.resident / n} }

func measure(t *testing.T) memory {
	t.Helper()
	// The second collection frees what the first one only made unreachable
	// (finalizers), and shrinks stacks that were deep once.
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return memory{int(s.HeapAlloc), int(s.StackInuse), resident(t)}
}

// resident returns the resident set of this process.
func resident(t *testing.T) int {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// connectBare connects a descriptor that Go knows nothing of.
func connectBare(t *testing.T, to netip.AddrPort) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
	return fd
}
