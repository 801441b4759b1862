package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
	"github.com/fairlead-lb/fairlead/internal/testenv"
)

// patienceOfTests bounds every wait of a test. Only a failing test waits so long.
const patienceOfTests = 20 * time.Second

// TestMain is a proxy process where another test started one. It fails when tests leave goroutines or file descriptors behind.
func TestMain(m *testing.M) {
	if os.Getenv(childVIP) != "" {
		os.Exit(childMain())
	}
	files, goroutines := openFiles(), runtime.NumGoroutine()
	code := m.Run()
	deadline := time.Now().Add(patienceOfTests)
	for openFiles() > files+runtimeFiles || runtime.NumGoroutine() > goroutines {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			fmt.Printf("left behind: %d file descriptors (%d before), goroutines:\n%s\n", openFiles(), files, buf[:runtime.Stack(buf, true)])
			code = max(code, 1)
			break
		}
		runtime.GC() // the pool of pipes closes them in finalizers
		runtime.Gosched()
	}
	os.Exit(code)
}

// runtimeFiles are what the network poller opens for itself: epoll and eventfd.
const runtimeFiles = 2

func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // not Linux: goroutines are checked all the same
	}
	return len(entries) - 1 // the directory itself
}

// eventually waits until ok, looking often.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patienceOfTests)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen: %s", what)
		}
		<-tick.C
	}
}

// testAddress returns a loopback address that no other test, process or run
// has until this test ends: whoever holds its last port has it.
func testAddress(t *testing.T) netip.Addr {
	t.Helper()
	testenv.Require(t, "all of 127.0.0.0/8 on the loopback interface (Linux)", runtime.GOOS == "linux")
	for {
		n := rand.Uint32()
		// 127.64.0.0/10, kept away from the addresses that people use.
		a := netip.AddrFrom4([4]byte{127, 64 | byte(n>>16)&63, byte(n >> 8), byte(n)})
		l, err := netio.ListenTCP(netip.AddrPortFrom(a, 65535))
		if netio.CauseOf(err) == netio.AddressInUse {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return a
	}
}

// rig is a running proxy with one owner.
type rig struct {
	*Proxy
	t       *testing.T
	owner   model.Key
	vip     netip.Addr
	changed chan model.Key
	stop    func()
}

func newRig(t *testing.T, cfg Config) *rig {
	t.Helper()
	r := &rig{Proxy: New(cfg), t: t, owner: model.Key{Namespace: "shop", Name: "web"}, vip: testAddress(t)}
	r.run()
	return r
}

// run runs the proxy until stop or the end of the test.
func (r *rig) run() {
	if r.changed == nil {
		r.changed = make(chan model.Key, 1000)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx, func(k model.Key) { r.changed <- k }) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	r.t.Cleanup(r.stop)
}

// set serves listeners at the rig's address and fails on any port error.
func (r *rig) set(listeners ...model.Listener) {
	r.t.Helper()
	if faults := r.Set(r.owner, "uid", []netip.Addr{r.vip}, listeners); len(faults) > 0 {
		r.t.Fatalf("Set: %+v", faults)
	}
}

func (r *rig) at(port uint16) netip.AddrPort { return netip.AddrPortFrom(r.vip, port) }

// dial connects to a port of the rig.
func (r *rig) dial(port uint16) *net.TCPConn {
	r.t.Helper()
	return dialTest(r.t, r.at(port))
}

// refused fails unless a connection to the port is reset, be it while it is
// being made or afterwards.
func (r *rig) refused(port uint16) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patienceOfTests)
	defer cancel()
	c, err := netio.DialTCP(ctx, r.at(port))
	if netio.CauseOf(err) == netio.WasReset {
		return
	}
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patienceOfTests)); err != nil {
		r.t.Fatal(err)
	}
	mustReset(r.t, c)
}

// port returns the counters of one port.
func (r *rig) port(p model.Port) PortStats {
	for _, s := range r.Stats() {
		if s.Port == p && s.Owner == r.owner {
			return s
		}
	}
	return PortStats{}
}

// closedBy waits until some connection of the port has ended for a reason.
func (r *rig) closedBy(p model.Port, why Reason) {
	r.t.Helper()
	eventually(r.t, "a connection ends with "+why.String(), func() bool {
		for _, c := range r.port(p).Closed {
			if c.Reason == why {
				return true
			}
		}
		return false
	})
}

func tcpPort(n uint16) model.Port { return model.Port{Protocol: model.TCP, Number: n} }
func udpPort(n uint16) model.Port { return model.Port{Protocol: model.UDP, Number: n} }

// listener returns a listener with members of weight 1.
func listener(p model.Port, members ...netip.AddrPort) model.Listener {
	l := model.Listener{Port: p}
	for _, m := range members {
		l.Pool.Members = append(l.Pool.Members, model.Member{Address: m, Weight: 1})
	}
	return l
}

func dialTest(t *testing.T, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patienceOfTests)
	defer cancel()
	c, err := netio.DialTCP(ctx, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patienceOfTests)); err != nil {
		t.Fatal(err)
	}
	return c
}

// backend serves every connection with handle until the test ends; the
// connection is closed after it. It returns where it listens.
func backend(t *testing.T, handle func(*net.TCPConn)) netip.AddrPort {
	t.Helper()
	at, _ := backendAt(t, netip.AddrPortFrom(testAddress(t), 8080), handle)
	return at
}

// backendAt is backend at an address, with a function that stops it.
func backendAt(t *testing.T, at netip.AddrPort, handle func(*net.TCPConn)) (netip.AddrPort, func()) {
	t.Helper()
	l, err := netio.ListenTCP(at)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []*net.TCPConn
	all.Go(func() {
		for {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(patienceOfTests))
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			all.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	stop := sync.OnceFunc(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	t.Cleanup(stop)
	return netio.Unmap(l.Addr().(*net.TCPAddr).AddrPort()), stop
}

// named answers every connection with a name and then echoes.
func named(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	return backend(t, greet(name))
}

func greet(name string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		if _, err := io.WriteString(c, name); err == nil {
			_, _ = io.Copy(c, c)
		}
	}
}

// deadAddress returns an address that refuses connections.
func deadAddress(t *testing.T) netip.AddrPort {
	t.Helper()
	return netip.AddrPortFrom(testAddress(t), 8080)
}

// read reads exactly n bytes.
func read(t *testing.T, c net.Conn, n int) string {
	t.Helper()
	buf := make([]byte, n)
	if got, err := io.ReadFull(c, buf); err != nil {
		t.Fatalf("reading %d bytes: got %q, %v", n, buf[:got], err)
	}
	return string(buf)
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatal(err)
	}
}

// mustEnd reads to the end and tells how it came: io.EOF for FIN.
func mustEnd(t *testing.T, c net.Conn) (string, error) {
	t.Helper()
	var all strings.Builder
	_, err := io.Copy(&all, c)
	if err == nil {
		err = io.EOF
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection did not end; read %d bytes", all.Len())
	}
	return all.String(), err
}

// mustReset reads to the end and fails unless that is a RST.
func mustReset(t *testing.T, c net.Conn) {
	t.Helper()
	if got, err := mustEnd(t, c); netio.CauseOf(err) != netio.WasReset {
		t.Errorf("the connection ended with %v after %d bytes, want a reset", err, len(got))
	}
}

// mustFinish reads to the end and fails unless that is a FIN.
func mustFinish(t *testing.T, c net.Conn) string {
	t.Helper()
	got, err := mustEnd(t, c)
	if !errors.Is(err, io.EOF) {
		t.Errorf("the connection ended with %v after %d bytes, want FIN", err, len(got))
	}
	return got
}

// take receives from a channel, and fails the test when nothing comes.
func take[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patienceOfTests):
		t.Fatal("nothing came")
		panic("not reached")
	}
}
