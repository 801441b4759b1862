package proxy

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/netio"
)

// fullBacklog listens at an address without accepting, with a backlog that is
// full: the kernel drops further SYNs, so connecting hangs.
func fullBacklog(t *testing.T, at netip.AddrPort) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	dialTest(t, at) // a backlog of 0 holds one connection
}

// hanging returns an address whose connections are never completed: a listener
// with a full backlog drops the SYN.
func hanging(t *testing.T) netip.AddrPort {
	t.Helper()
	at := netip.AddrPortFrom(testAddress(t), 8080)
	fullBacklog(t, at)
	return at
}

// TestTC13ClientFinWhileConnecting: a client that ends its stream while the
// member is being connected to is served all the same (incident 18).
func TestTC13ClientFinWhileConnecting(t *testing.T) {
	r := newRig(t, Config{Random: func() uint64 { return 0 }})
	member := backend(t, func(c *net.TCPConn) {
		all, _ := io.ReadAll(c)
		_, _ = c.Write(bytes.ToUpper(all))
	})
	l := listener(tcpPort(8080), hanging(t), member)
	l.Timeouts.MemberConnect = 300 * time.Millisecond
	r.set(l)
	for range 2 { // one of them begins with the member that hangs
		c := r.dial(8080)
		write(t, c, "hello")
		_ = c.CloseWrite()
		if got := mustFinish(t, c); got != "HELLO" {
			t.Errorf("got %q, want HELLO", got)
		}
	}
	if r.port(tcpPort(8080)).Retries == 0 {
		t.Error("no connection began with the member that hangs")
	}
}

func TestTC13ClientResetWhileConnecting(t *testing.T) {
	r := newRig(t, Config{})
	l := listener(tcpPort(8080), hanging(t))
	l.Timeouts.MemberConnect = time.Hour
	one := 1
	l.ConnectionLimit = &one
	r.set(l)
	c := r.dial(8080)
	write(t, c, "bytes do not hide the reset")
	eventually(t, "the session is connecting", func() bool { return r.port(tcpPort(8080)).Members[0].Active == 1 })
	if err := netio.Reset(c); err != nil {
		t.Fatal(err)
	}
	r.closedBy(tcpPort(8080), ReasonClientReset)
	if got := r.port(tcpPort(8080)); got.Active != 0 || got.Members[0].Active != 0 {
		t.Errorf("%d connections and %d links are left, want none", got.Active, got.Members[0].Active)
	}
}

func TestTC15ConnectTimeout(t *testing.T) {
	r := newRig(t, Config{})
	l := listener(tcpPort(8080), hanging(t))
	l.Timeouts.MemberConnect = 100 * time.Millisecond
	r.set(l)
	r.refused(8080)
	r.closedBy(tcpPort(8080), ReasonConnect)
	if got := r.State(r.owner).Health[0].Members[0].Cause; got != "no answer within 100ms" {
		t.Errorf("cause %q, want the time-out", got)
	}
}
