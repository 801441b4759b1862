package proxy

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

func limited(l model.Listener, n int) model.Listener {
	l.ConnectionLimit = &n
	return l
}

func TestTL01QueueAtTheLimit(t *testing.T) {
	r := newRig(t, Config{})
	member := named(t, "a")
	r.set(limited(listener(tcpPort(8080), member), 1))
	first := r.dial(8080)
	read(t, first, 1)
	second := r.dial(8080) // connected, but nobody speaks
	if err := second.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := second.Read(make([]byte, 1)); netio.CauseOf(err) != netio.TimedOut {
		t.Errorf("beyond the limit: read %d bytes, %v; want silence", n, err)
	}
	if got := r.port(tcpPort(8080)).Active; got != 1 {
		t.Errorf("%d connections are active, want 1", got)
	}
	_ = first.Close()
	if err := second.SetReadDeadline(time.Now().Add(patienceOfTests)); err != nil {
		t.Fatal(err)
	}
	read(t, second, 1)
}

func TestTL02RaisedLive(t *testing.T) {
	r := newRig(t, Config{})
	member := named(t, "a")
	r.set(limited(listener(tcpPort(8080), member), 1))
	first := r.dial(8080)
	read(t, first, 1)
	second := r.dial(8080)
	r.set(limited(listener(tcpPort(8080), member), 2))
	read(t, second, 1)
	r.set(limited(listener(tcpPort(8080), member), 1))
	write(t, first, "x")
	write(t, second, "y")
	if got := read(t, first, 1) + read(t, second, 1); got != "xy" {
		t.Errorf("after lowering the limit got %q, want both connections alive", got)
	}
	r.set(listener(tcpPort(8080), member))
	read(t, r.dial(8080), 1)
}

// TestTL03NoOverAdmission lets many clients race for a few slots.
func TestTL03NoOverAdmission(t *testing.T) {
	const limit, clients = 4, 40
	var now, most atomic.Int64
	member := backend(t, func(c *net.TCPConn) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		_, _ = io.Copy(c, c)
		now.Add(-1)
	})
	r := newRig(t, Config{})
	r.set(limited(listener(tcpPort(8080), member), limit))
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			c := dialTest(t, r.at(8080))
			if _, err := c.Write([]byte("x")); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				t.Error(err)
			}
			_ = c.CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		})
	}
	all.Wait()
	// A session frees its slot after the member has seen its end.
	if got := most.Load(); got > limit {
		t.Errorf("%d connections at once, want at most %d", got, limit)
	}
	eventually(t, "all slots are free again", func() bool { return r.port(tcpPort(8080)).Active == 0 })
	if got := r.port(tcpPort(8080)).Accepted; got != clients {
		t.Errorf("%d connections were let in, want %d", got, clients)
	}
}

func TestTL03Gate(t *testing.T) {
	g := newGate()
	g.setLimit(2, false)
	never, over := make(chan struct{}), make(chan struct{})
	close(over)
	queued := 0
	enter := func(done chan struct{}) admission { return g.enter(done, func() { queued++ }) }
	for range 2 {
		if enter(never) != admitted {
			t.Fatal("a free slot was refused")
		}
	}
	if got := enter(over); got != closed {
		t.Errorf("a third client got %v, want to wait until it need not", got)
	}
	if queued != 1 {
		t.Errorf("%d were queued, want 1", queued)
	}
	g.setLimit(2, true)
	if got := enter(never); got != refused {
		t.Errorf("beyond the limit of a gate that refuses: %v", got)
	}
	g.leave()
	if enter(over) != admitted {
		t.Error("a slot that was given back is not free")
	}
}

// TestTL01RefuseAtTheLimit: who comes too late is reset, and who leaves makes
// room at once.
func TestTL01RefuseAtTheLimit(t *testing.T) {
	r := newRig(t, Config{})
	l := limited(listener(tcpPort(8080), named(t, "a")), 1)
	l.LimitMode = model.LimitRefuse
	r.set(l)
	first := r.dial(8080)
	read(t, first, 1)
	r.refused(8080)
	if s := r.port(tcpPort(8080)); s.Refused != 1 || s.Queued != 0 || s.Accepted != 1 {
		t.Errorf("%d refused, %d queued, %d let in; want 1, 0, 1", s.Refused, s.Queued, s.Accepted)
	}
	_ = first.Close()
	eventually(t, "the slot is free", func() bool { return r.port(tcpPort(8080)).Active == 0 })
	read(t, r.dial(8080), 1)
}

// TestTL01RefuseLive: a client that waits is reset when waiting ends.
func TestTL01RefuseLive(t *testing.T) {
	r := newRig(t, Config{})
	l := limited(listener(tcpPort(8080), named(t, "a")), 1)
	r.set(l)
	read(t, r.dial(8080), 1)
	waits := r.dial(8080)
	eventually(t, "a client waits", func() bool { return r.port(tcpPort(8080)).Queued == 1 })
	l.LimitMode = model.LimitRefuse
	r.set(l)
	mustReset(t, waits)
}

func TestTL04SourceRanges(t *testing.T) {
	r := newRig(t, Config{})
	member := named(t, "a")
	cases := map[string]struct {
		reason string
		ranges []string
		denied bool
	}{
		"None":        {reason: "no range lets everybody in"},
		"Inside":      {reason: "the client is inside", ranges: []string{"127.0.0.0/8"}},
		"Outside":     {reason: "the client is outside", ranges: []string{"192.0.2.0/24"}, denied: true},
		"OtherFamily": {reason: "no range of the client's family denies it", ranges: []string{"::/0"}, denied: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := listener(tcpPort(8080), member)
			for _, p := range tc.ranges {
				l.AllowedCIDRs = append(l.AllowedCIDRs, netip.MustParsePrefix(p))
			}
			r.set(l)
			before := r.port(tcpPort(8080))
			if !tc.denied {
				read(t, dialTest(t, r.at(8080)), 1)
				return
			}
			r.refused(8080)
			after := r.port(tcpPort(8080))
			if after.Denied != before.Denied+1 || after.Accepted != before.Accepted {
				t.Errorf("%s: counted %d denied, %d accepted more; want 1 and 0", tc.reason, after.Denied-before.Denied, after.Accepted-before.Accepted)
			}
		})
	}
}

func TestTL05Budget(t *testing.T) {
	r := newRig(t, Config{})
	r.budget.total = filesPerConnection
	r.set(listener(tcpPort(8080), named(t, "a")))
	first := r.dial(8080)
	read(t, first, 1)
	second := r.dial(8080)
	eventually(t, "the shortage is counted", func() bool { return r.port(tcpPort(8080)).OutOfFiles > 1 })
	_ = first.Close()
	read(t, second, 1)
}

// TestTL05OutOfFiles takes every file descriptor of the process away while a
// client waits: the listener must neither spin nor end (incident 49).
func TestTL05OutOfFiles(t *testing.T) {
	r := newRig(t, Config{})
	member := named(t, "a")
	r.set(listener(tcpPort(8080), member))
	read(t, r.dial(8080), 1)
	client := unconnected(t, r.at(8080))
	release := exhaustFiles(t)
	client.connect()
	eventually(t, "the shortage is counted", func() bool { return r.port(tcpPort(8080)).OutOfFiles > 0 })
	release()
	read(t, client.conn(), 1)
	const most = 1000
	if got := r.port(tcpPort(8080)).OutOfFiles; got > most {
		t.Errorf("tried %d times while there were no descriptors", got)
	}
}

// exhaustFiles lowers the limit of file descriptors to what is in use and
// returns a function that restores it.
func exhaustFiles(t *testing.T) (restore func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	probe, err := syscall.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Close(probe) // the lowest free number: all below are taken
	none := old
	none.Cur = uint64(probe)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	restore = sync.OnceFunc(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(restore)
	return restore
}

func TestTL06SilentClient(t *testing.T) {
	r := newRig(t, Config{})
	l := listener(tcpPort(8080), backend(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }))
	l.Timeouts.ClientData = 50 * time.Millisecond
	r.set(l)
	mustFinish(t, r.dial(8080)) // it never sent a byte
	r.closedBy(tcpPort(8080), ReasonClientIdle)
}

// TestTB01Backpressure has a sender with much to say and a client that does
// not read: the sender must stop, and the relay must not hold the bytes.
func TestTB01Backpressure(t *testing.T) {
	const size = 1 << 30
	var sent atomic.Int64
	member := backend(t, func(c *net.TCPConn) {
		chunk := make([]byte, 1<<20)
		for sent.Load() < size {
			n, err := c.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080), member))
	before := heap()
	c := r.dial(8080)
	last := int64(-1)
	stalled := func() bool {
		n := sent.Load()
		same := n == last && n > 0
		last = n
		return same
	}
	eventually(t, "the sender blocks", func() bool {
		for range 20 {
			if !stalled() {
				return false
			}
			<-time.After(time.Millisecond)
		}
		return true
	})
	if sent.Load() >= size {
		t.Errorf("all of %d bytes were taken though the client reads nothing", size)
	}
	const most = 4 << 20 // the sender's own chunk, test harness, and slack
	if grown := heap() - before; grown > most {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	_ = netio.Reset(c)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestTB02NoDelay(t *testing.T) {
	client, server := tcpPair(t)
	for name, c := range map[string]*net.TCPConn{"dialled": client, "accepted": server} {
		if got := sockopt(t, c, syscall.IPPROTO_TCP, syscall.TCP_NODELAY); got == 0 {
			t.Errorf("TCP_NODELAY is off on the %s connection", name)
		}
	}
}

func TestTT10KeepAlive(t *testing.T) {
	client, server := tcpPair(t)
	if err := netio.KeepAlive(client); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*net.TCPConn{"dialled": client, "accepted": server} {
		got := fmt.Sprint(sockopt(t, c, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE), sockopt(t, c, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE),
			sockopt(t, c, syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL), sockopt(t, c, syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT))
		if want := "1 60 10 6"; got != want {
			t.Errorf("keepalive of the %s connection is %s, want %s", name, got, want)
		}
	}
}

// TestTB03Splice counts what the relay allocates for bytes: with splice, a
// gigabyte costs no more than a kilobyte.
func TestTB03Splice(t *testing.T) {
	client, server := tcpPair(t)
	in, out := tcpPair(t)
	pump, err := netio.NewPump(in, server, new(netio.Buffers))
	if err != nil {
		t.Fatal(err)
	}
	write(t, client, "warm up")
	carryAll(t, pump, out, 7)
	chunk := make([]byte, 64<<10)
	allocated := testing.AllocsPerRun(20, func() {
		if _, err := client.Write(chunk); err != nil {
			t.Fatal(err)
		}
		carryAll(t, pump, nil, len(chunk))
		if _, err := io.ReadFull(out, chunk); err != nil {
			t.Fatal(err)
		}
	})
	const most = 4 // a copy through user space allocates its buffer of 32 KiB each time
	if allocated > most {
		t.Errorf("%v allocations for a chunk, want at most %d", allocated, most)
	}
}

// TestTB04IdleHoldsNothing has many connections carry bytes and then fall
// silent: their pipes are given back.
func TestTB04IdleHoldsNothing(t *testing.T) {
	const connections = 50
	r := newRig(t, Config{})
	// One endless copy in the member would hold a pipe all the time.
	r.set(listener(tcpPort(8080), backend(t, func(c *net.TCPConn) {
		buf := make([]byte, 1)
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
			_, _ = c.Write(buf)
		}
	})))
	for range connections {
		c := r.dial(8080)
		write(t, c, "x")
		read(t, c, 1)
	}
	const most = connections / 2 // a pipe has two ends; all in use would be four for each connection
	eventually(t, "pipes are given back", func() bool {
		runtime.GC()
		return pipes(t) <= most
	})
	if got := r.port(tcpPort(8080)).Active; got != connections {
		t.Errorf("%d connections are open, want %d", got, connections)
	}
}

// pipes counts the ends of pipes that this process has.
func pipes(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && strings.HasPrefix(to, "pipe:") {
			n++
		}
	}
	return n
}

func carryAll(t *testing.T, p *netio.Pump, out *net.TCPConn, n int) {
	t.Helper()
	for left := int64(n); left > 0; {
		if err := p.Wait(); err != nil {
			t.Fatal(err)
		}
		moved, err := p.Move()
		if err != nil {
			t.Fatal(err)
		}
		left -= moved
	}
	if out != nil {
		read(t, out, n)
	}
}

// TestTB05PlainTCP: an MPTCP listener would be protocol 262.
func TestTB05PlainTCP(t *testing.T) {
	l, err := netio.ListenTCP(netip.AddrPortFrom(testAddress(t), 8080))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const soProtocol = 38
	if got := sockopt(t, l, syscall.SOL_SOCKET, soProtocol); got != syscall.IPPROTO_TCP {
		t.Errorf("the listener's protocol is %d, want %d", got, syscall.IPPROTO_TCP)
	}
}

func sockopt(t *testing.T, c syscall.Conn, level, name int) int {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var value int
	var opt error
	if err := raw.Control(func(fd uintptr) { value, opt = syscall.GetsockoptInt(int(fd), level, name) }); err != nil || opt != nil {
		t.Fatal(err, opt)
	}
	return value
}

// waiting is a client socket that exists before file descriptors run out.
type waiting struct {
	t  *testing.T
	fd int
	to netip.AddrPort
}

func unconnected(t *testing.T, to netip.AddrPort) *waiting {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &waiting{t, fd, to}
}

func (w *waiting) connect() {
	w.t.Helper()
	if err := syscall.Connect(w.fd, &syscall.SockaddrInet4{Port: int(w.to.Port()), Addr: w.to.Addr().As4()}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *waiting) conn() net.Conn {
	w.t.Helper()
	f := os.NewFile(uintptr(w.fd), "client")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patienceOfTests))
	return c
}
