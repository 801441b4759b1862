package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	pires "github.com/pires/go-proxyproto"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

// udpBackend answers every datagram with answer(datagram, sender) until it is
// stopped; a nil answer is none.
func udpBackend(t *testing.T, at netip.AddrPort, answer func([]byte, netip.AddrPort) []byte) (stop func()) {
	t.Helper()
	c, err := netio.ListenUDP(at)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		buf := make([]byte, netio.DatagramSize)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			if a := answer(buf[:n], from); a != nil {
				_, _ = c.WriteToUDPAddrPort(a, from)
			}
		}
	})
	stop = sync.OnceFunc(func() {
		_ = c.Close()
		done.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func echo(b []byte, _ netip.AddrPort) []byte { return bytes.Clone(b) }

// signed answers with the backend's name in front.
func signed(name string) func([]byte, netip.AddrPort) []byte {
	return func(b []byte, _ netip.AddrPort) []byte { return append([]byte(name), b...) }
}

func udpAddress(t *testing.T) netip.AddrPort {
	t.Helper()
	return netip.AddrPortFrom(testAddress(t), 5300)
}

// udpNamed starts a backend that signs what it answers.
func udpNamed(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	at := udpAddress(t)
	udpBackend(t, at, signed(name))
	return at
}

func (r *rig) udp(port uint16) *net.UDPConn {
	r.t.Helper()
	c, err := netio.DialUDP(r.at(port))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patienceOfTests)); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// ask sends a datagram and returns the answer. Loopback loses no datagram that
// has a receiver.
func ask(t *testing.T, c *net.UDPConn, s string) string {
	t.Helper()
	write(t, c, s)
	return hear(t, c)
}

func hear(t *testing.T, c *net.UDPConn) string {
	t.Helper()
	buf := make([]byte, netio.DatagramSize)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func TestUD01OneSocketPerFlow(t *testing.T) {
	at := udpAddress(t)
	udpBackend(t, at, func(_ []byte, from netip.AddrPort) []byte { return []byte(from.String()) })
	r := newRig(t, Config{})
	r.set(listener(udpPort(5353), at))
	one, two := r.udp(5353), r.udp(5353)
	first, second := ask(t, one, "x"), ask(t, two, "x")
	if first == second {
		t.Errorf("two clients came from the same socket %s", first)
	}
	if again := ask(t, one, "x"); again != first {
		t.Errorf("one client came from %s and then from %s", first, again)
	}
	if s := r.port(udpPort(5353)); s.Active != 2 || s.Accepted != 2 {
		t.Errorf("%d flows of %d, want 2 of 2", s.Active, s.Accepted)
	}
}

// TestUD02RepliesFromTheDialledAddress uses connected clients: they see only
// what comes from the address they asked (incident 31).
func TestUD02RepliesFromTheDialledAddress(t *testing.T) {
	r := newRig(t, Config{})
	r.set(listener(udpPort(5353), udpNamed(t, "a")))
	other := model.Key{Name: "other"}
	second := testAddress(t)
	if faults := r.Set(other, "uid", []netip.Addr{second}, []model.Listener{listener(udpPort(5353), udpNamed(t, "b"))}); len(faults) > 0 {
		t.Fatal(faults)
	}
	if got := ask(t, r.udp(5353), "x"); got != "ax" {
		t.Errorf("got %q, want ax", got)
	}
	r.vip = second
	if got := ask(t, r.udp(5353), "x"); got != "bx" {
		t.Errorf("got %q, want bx", got)
	}
}

// TestUD03IdleTimeout: a flow ends after its time-out and not before (incident 34).
func TestUD03IdleTimeout(t *testing.T) {
	r := newRig(t, Config{FlowTimeout: 300 * time.Millisecond})
	r.set(listener(udpPort(5353), udpNamed(t, "a")))
	c := r.udp(5353)
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for time.Since(began) < time.Second {
		ask(t, c, "x")
		<-tick.C
	}
	if got := r.port(udpPort(5353)).Accepted; got > 2 {
		t.Errorf("%d flows while datagrams flowed, want one", got)
	}
	r.closedBy(udpPort(5353), ReasonClientIdle)
	if s := r.port(udpPort(5353)); s.Active != 0 || s.Members[0].Active != 0 {
		t.Errorf("%d flows, %d links after the time-out; want none", s.Active, s.Members[0].Active)
	}
	if got := ask(t, c, "y"); got != "ay" {
		t.Errorf("after the time-out got %q, want ay", got)
	}
}

// TestUD03IdleTimeoutOfOneListener gives two listeners different time-outs, and
// then shortens the longer one: a flow that is silent already notices.
func TestUD03IdleTimeoutOfOneListener(t *testing.T) {
	r := newRig(t, Config{FlowTimeout: time.Hour})
	member := udpNamed(t, "a")
	short, long := listener(udpPort(5353), member), listener(udpPort(5354), member)
	short.Timeouts.UDPIdle = 100 * time.Millisecond
	r.set(short, long)
	ask(t, r.udp(5353), "x")
	ask(t, r.udp(5354), "x")
	r.closedBy(udpPort(5353), ReasonClientIdle)
	if got := r.port(udpPort(5354)).Active; got != 1 {
		t.Fatalf("%d flows of the other listener, want 1", got)
	}
	long.Timeouts.UDPIdle = 100 * time.Millisecond
	r.set(short, long)
	r.closedBy(udpPort(5354), ReasonClientIdle)
}

// TestUD04FirstDatagram ends flows so fast that nearly every datagram begins
// one: none may be lost on the way to the member (incident 33).
func TestUD04FirstDatagram(t *testing.T) {
	got := make(chan string, 1000)
	at := udpAddress(t)
	udpBackend(t, at, func(b []byte, _ netip.AddrPort) []byte {
		got <- string(b)
		return nil
	})
	r := newRig(t, Config{FlowTimeout: time.Millisecond})
	r.set(listener(udpPort(5353), at))
	c := r.udp(5353)
	for i := range 200 {
		write(t, c, fmt.Sprint(i))
		if s := take(t, got); s != fmt.Sprint(i) {
			t.Fatalf("the member got %q, want %d", s, i)
		}
	}
}

// TestUD05Boundaries: datagrams of every size stay what they were (incident 36).
func TestUD05Boundaries(t *testing.T) {
	r := newRig(t, Config{})
	at := udpAddress(t)
	udpBackend(t, at, echo)
	r.set(listener(udpPort(5353), at))
	c := r.udp(5353)
	const largest = 65507 // what IPv4 leaves of 65535
	for _, size := range []int{1, 0, 1472, 24_001, largest, 3} {
		want := string(bytes.Repeat([]byte{byte(size)}, size))
		if got := ask(t, c, want); got != want {
			t.Errorf("a datagram of %d bytes came back with %d", size, len(got))
		}
	}
	for i := range 20 {
		write(t, c, fmt.Sprint(i))
	}
	for i := range 20 {
		if got := hear(t, c); got != fmt.Sprint(i) {
			t.Fatalf("datagram %d came back as %q", i, got)
		}
	}
}

// TestUD06Refused: a refusal costs one datagram, and no client hears of it
// (incident 35).
func TestUD06Refused(t *testing.T) {
	r := newRig(t, Config{Random: func() uint64 { return 0 }})
	dead := udpAddress(t)
	r.set(listener(udpPort(5353), dead, udpNamed(t, "a")))
	answered := 0
	for range 4 {
		c := r.udp(5353)
		write(t, c, "1")
		// The member that refuses loses this datagram and no other one.
		eventually(t, "the refusal, or the answer", func() bool {
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			buf := make([]byte, 10)
			n, err := c.Read(buf)
			if err == nil && string(buf[:n]) != "a1" {
				t.Errorf("the client heard %q", buf[:n])
			}
			if err == nil {
				answered++
			}
			m := r.member(udpPort(5353), dead)
			return err == nil || m.Failed > 0 && m.Active == 0
		})
		_ = c.SetReadDeadline(time.Now().Add(patienceOfTests))
		if got := ask(t, c, "2"); got != "a2" {
			t.Errorf("the next datagram was answered with %q, want a2", got)
		}
	}
	if answered == 4 {
		t.Error("no flow began with the member that refuses")
	}
	r.closedBy(udpPort(5353), ReasonRefused)
	if got := r.healthOf(dead).Cause; got != "connection refused" {
		t.Errorf("cause %q, want connection refused", got)
	}
}

// TestUD07RemovedMember removes and fails members under a steady sender (incident 39).
func TestUD07RemovedMember(t *testing.T) {
	r := newRig(t, Config{Random: func() uint64 { return 0 }})
	a, b := udpNamed(t, "a"), udpNamed(t, "b")
	r.set(listener(udpPort(5353), a))
	c := r.udp(5353)
	if got := ask(t, c, "1"); got != "a1" {
		t.Fatalf("got %q, want a1", got)
	}
	r.set(listener(udpPort(5353), b))
	if got := ask(t, c, "2"); got != "b2" {
		t.Errorf("after the member was removed got %q, want b2", got)
	}
	r.closedBy(udpPort(5353), ReasonMoved)
	r.set(listener(udpPort(5353)))
	write(t, c, "nobody is there")
	eventually(t, "the datagram is dropped", func() bool { return r.port(udpPort(5353)).Dropped == 1 })
	r.set(listener(udpPort(5353), a, b))
	third := ask(t, c, "3")
	if third != "a3" && third != "b3" {
		t.Errorf("after members returned got %q", third)
	}
	now, other := a, "b4"
	if third == "b3" {
		now, other = b, "a4"
	}
	for _, m := range r.services(5353) {
		m.health.down.Store(m.address == now)
	}
	if got := ask(t, c, "4"); got != other {
		t.Errorf("after the member went down got %q, want %q", got, other)
	}
	// With all members down moving would help nobody.
	for _, m := range r.services(5353) {
		m.health.down.Store(true)
	}
	if got := ask(t, c, "5"); got[0] != other[0] {
		t.Errorf("with all members down the flow moved: %q", got)
	}
}

func (r *rig) services(port uint16) []candidate {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owners[r.owner].services[udpPort(port)].snapshot.Load().members
}

func TestUD08Draining(t *testing.T) {
	r := newRig(t, Config{DrainTimeout: time.Second})
	a, b := udpNamed(t, "a"), udpNamed(t, "b")
	r.set(listener(udpPort(5353), a))
	c := r.udp(5353)
	ask(t, c, "1")
	l := listener(udpPort(5353), a, b)
	l.Pool.Members[0].Weight = 0
	r.set(l)
	if got := ask(t, c, "2"); got != "a2" {
		t.Errorf("a flow of a draining member got %q, want a2", got)
	}
	if got := ask(t, r.udp(5353), "3"); got != "b3" {
		t.Errorf("a new flow got %q, want b3", got)
	}
	r.closedBy(udpPort(5353), ReasonDrain)
	if got := ask(t, c, "4"); got != "b4" {
		t.Errorf("after the drain got %q, want b4", got)
	}
}

// TestUD09UnchangedFlows: a change that leaves the member leaves the flow
// (incident 40).
func TestUD09UnchangedFlows(t *testing.T) {
	r := newRig(t, Config{})
	a, b := udpNamed(t, "a"), udpNamed(t, "b")
	r.set(listener(udpPort(5353), a, b))
	c := r.udp(5353)
	first := ask(t, c, "x")
	l := listener(udpPort(5353), a, b, udpNamed(t, "c"))
	l.Pool.Members[0].Weight, l.Pool.Algorithm = 7, model.LeastConnections
	r.set(l)
	if got := ask(t, c, "x"); got != first {
		t.Errorf("the flow moved from %q to %q though its member stayed", first, got)
	}
	if got := r.port(udpPort(5353)).Accepted; got != 1 {
		t.Errorf("%d flows were made, want one", got)
	}
}

// TestUD10FlowLimit: a flood of flows ends none that is there (incident 38).
func TestUD10FlowLimit(t *testing.T) {
	r := newRig(t, Config{FlowLimit: 2})
	r.set(listener(udpPort(5353), udpNamed(t, "a")))
	one, two, three := r.udp(5353), r.udp(5353), r.udp(5353)
	ask(t, one, "x")
	ask(t, two, "x")
	write(t, three, "x")
	eventually(t, "the third client is dropped", func() bool { return r.port(udpPort(5353)).Dropped == 1 })
	if got := ask(t, one, "y") + ask(t, two, "z"); got != "ayaz" {
		t.Errorf("the flows that were there got %q, want ayaz", got)
	}
}

// TestUD11SocketFailure (incident 38) lets opening a flow fail: that datagram is
// lost, and nothing else.
func TestUD11SocketFailure(t *testing.T) {
	r := newRig(t, Config{})
	r.set(listener(udpPort(5353), udpNamed(t, "a")))
	one, two := r.udp(5353), r.udp(5353)
	ask(t, one, "x")
	release := exhaustFiles(t)
	write(t, two, "lost")
	eventually(t, "the datagram is dropped", func() bool {
		s := r.port(udpPort(5353))
		return s.Dropped == 1 && s.OutOfFiles == 1
	})
	if got := ask(t, one, "y"); got != "ay" {
		t.Errorf("meanwhile the other flow got %q, want ay", got)
	}
	release()
	if got := ask(t, two, "z"); got != "az" {
		t.Errorf("afterwards got %q, want az", got)
	}
}

// TestUD12NoAnswerOfOurOwn: with no member, a denied client and a refusing
// member, the client hears nothing at all.
func TestUD12NoAnswerOfOurOwn(t *testing.T) {
	r := newRig(t, Config{})
	denied := listener(udpPort(5354), udpNamed(t, "a"))
	denied.AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	r.set(listener(udpPort(5353)), denied, listener(udpPort(5355), udpAddress(t)))
	clients := []*net.UDPConn{r.udp(5353), r.udp(5354), r.udp(5355)}
	for _, c := range clients {
		write(t, c, "x")
	}
	eventually(t, "all three are counted", func() bool {
		return r.port(udpPort(5353)).Dropped == 1 && r.port(udpPort(5354)).Denied == 1 && len(r.port(udpPort(5355)).Closed) == 1
	})
	for i, c := range clients {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if n, err := c.Read(make([]byte, 1)); netio.CauseOf(err) != netio.TimedOut {
			t.Errorf("client %d heard %d bytes, %v; want silence", i, n, err)
		}
	}
}

// TestPPU01HeaderInEveryDatagram reads the headers with another implementation.
func TestPPU01HeaderInEveryDatagram(t *testing.T) {
	at := udpAddress(t)
	udpBackend(t, at, func(b []byte, _ netip.AddrPort) []byte {
		in := bufio.NewReader(bytes.NewReader(b))
		h, err := pires.Read(in)
		if err != nil {
			return []byte(err.Error())
		}
		rest := make([]byte, in.Buffered())
		_, _ = in.Read(rest)
		return fmt.Appendf(nil, "%v>%v %v %s", h.SourceAddr, h.DestinationAddr, h.TransportProtocol.IsDatagram(), rest)
	})
	r := newRig(t, Config{})
	l := listener(udpPort(5353), at)
	l.Pool.ProxyProtocol = model.ProxyV2
	r.set(l)
	c := r.udp(5353)
	for i := range 3 {
		// PPU02: the answer comes back as it was sent, without a header.
		want := fmt.Sprintf("%v>%v true %d", c.LocalAddr(), r.at(5353), i)
		if got := ask(t, c, fmt.Sprint(i)); got != want {
			t.Errorf("datagram %d: %q, want %q", i, got, want)
		}
	}
}

// TestPPU03TooLongWithHeader: what no longer fits is dropped and counted, and
// the flow lives on.
func TestPPU03TooLongWithHeader(t *testing.T) {
	at := udpAddress(t)
	udpBackend(t, at, func(b []byte, _ netip.AddrPort) []byte { return fmt.Append(nil, len(b)) })
	r := newRig(t, Config{})
	l := listener(udpPort(5353), at)
	l.Pool.ProxyProtocol = model.ProxyV2
	r.set(l)
	c := r.udp(5353)
	const largest = 65507
	if got := ask(t, c, string(make([]byte, largest-28))); got != fmt.Sprint(largest) {
		t.Errorf("the member got %s bytes, want %d", got, largest)
	}
	write(t, c, string(make([]byte, largest-27)))
	eventually(t, "UD-18: the datagram is dropped", func() bool { return r.port(udpPort(5353)).Dropped == 1 })
	if got := ask(t, c, "x"); got != "29" {
		t.Errorf("the next datagram had %s bytes, want 29", got)
	}
}

func TestPP106V1CannotDescribeUDP(t *testing.T) {
	r := newRig(t, Config{})
	l := listener(udpPort(5353), udpNamed(t, "a"))
	l.Pool.ProxyProtocol = model.ProxyV1
	faults := r.Set(r.owner, "uid", []netip.Addr{r.vip}, []model.Listener{l})
	if len(faults) != 1 || faults[0].Reason != ProxyProtocolNotSupported {
		t.Errorf("%+v, want %s", faults, ProxyProtocolNotSupported)
	}
	if got := ask(t, r.udp(5353), "x"); got != "ax" {
		t.Errorf("got %q, want ax without a header", got)
	}
}
