package proxy

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

func TestTC10RetryOnAnotherMember(t *testing.T) {
	r := newRig(t, Config{})
	dead, alive := deadAddress(t), named(t, "a")
	r.set(listener(tcpPort(8080), dead, alive))
	for range 6 {
		c := r.dial(8080)
		if got := read(t, c, 1); got != "a" {
			t.Errorf("greeted by %q, want a", got)
		}
		_ = c.Close()
	}
	// A retry is a pick as well, so how often the dead member comes first
	// depends on the position; it cannot be never.
	if got := r.port(tcpPort(8080)).Retries; got == 0 {
		t.Error("no retry was needed though one of two members is dead")
	}
}

func TestTC10ThreeTries(t *testing.T) {
	r := newRig(t, Config{Random: func() uint64 { return 0 }})
	// Ordered by address, round robin meets the living one last.
	members := []netip.AddrPort{deadAddress(t), deadAddress(t), deadAddress(t), deadAddress(t)}
	r.set(listener(tcpPort(8080), members...))
	r.refused(8080)
	r.closedBy(tcpPort(8080), ReasonConnect)
	stats := r.port(tcpPort(8080))
	tried := 0
	for _, m := range stats.Members {
		tried += int(m.Total)
		if m.Total > 1 {
			t.Errorf("%s was tried %d times by one connection", m.Address, m.Total)
		}
	}
	if tried != connectTries || stats.Retries != connectTries-1 {
		t.Errorf("%d tries, %d retries; want %d and %d", tried, stats.Retries, connectTries, connectTries-1)
	}
}

// TestTC11NoRetryAfterPayload has the member take the header and a byte of
// payload before it resets: the client must see that, not another member.
func TestTC11NoRetryAfterPayload(t *testing.T) {
	member := backend(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 28+len("payload")))
		_ = c.SetLinger(0)
	})
	r := newRig(t, Config{Random: func() uint64 { return 0 }})
	l := listener(tcpPort(8080), member)
	l.Pool.ProxyProtocol = model.ProxyV2
	r.set(l)
	c := r.dial(8080)
	write(t, c, "payload")
	mustReset(t, c)
	r.closedBy(tcpPort(8080), ReasonMemberReset)
	if s := r.port(tcpPort(8080)); s.Retries != 0 || s.Members[0].Total != 1 {
		t.Errorf("%d retries, %d connections to the member; want 0 and 1", s.Retries, s.Members[0].Total)
	}
}

// TestTC11RetryKeepsPayload shows the other half: what was taken from the
// client for a member that then failed goes to the next one, after a header of
// its own.
func TestTC11RetryKeepsPayload(t *testing.T) {
	client, server := tcpPair(t)
	write(t, client, "payload")
	svc := newService(New(Config{}), model.Key{}, listener(tcpPort(8080)))
	l := listener(tcpPort(8080))
	l.Pool.ProxyProtocol = model.ProxyV2
	svc.apply(l)
	x := newSession(t.Context(), svc, server)
	eventually(t, "the payload is there", func() bool {
		unacked, _, err := netio.Progress(client)
		return err == nil && unacked == 0
	})
	first, peer := tcpPair(t)
	_ = first.Close()
	if again, err := x.writeFirst(first); err == nil || !again {
		t.Errorf("writing to a closed connection: again %v, %v; want another try", again, err)
	}
	_ = peer.Close()
	second, peer := tcpPair(t)
	if _, err := x.writeFirst(second); err != nil {
		t.Fatal(err)
	}
	want := append(appendHeader(nil, model.ProxyV2, x.from, netio.Local(server), nil), "payload"...)
	if got := read(t, peer, len(want)); got != string(want) {
		t.Errorf("the second member got %q, want %q", got, want)
	}
}

// TestEndWhileConnecting: a session that ends when the member has just been
// connected to resets the member, and tries no other.
func TestEndWhileConnecting(t *testing.T) {
	_, server := tcpPair(t)
	ended := make(chan error, 1)
	at := backend(t, func(c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})
	svc := newService(New(Config{}), model.Key{}, listener(tcpPort(8080), at))
	svc.apply(listener(tcpPort(8080), at))
	x := newSession(t.Context(), svc, server)
	// This is the moment within end when the reason is there and the context
	// has not been cancelled.
	x.outcome.Store(uint32(ReasonDrain))
	again, err := x.open(svc.at(0), time.Now().Add(patienceOfTests))
	if again || !errors.Is(err, errEnded) {
		t.Errorf("open returned %v, %v; want no other try and %v", again, err, errEnded)
	}
	if x.upstream != nil {
		t.Error("the session still has a connection to the member")
	}
	if err := <-ended; netio.CauseOf(err) != netio.WasReset {
		t.Errorf("the member's connection ended with %v, want a reset", err)
	}
}

// tcpPair returns both ends of a connection.
func tcpPair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	l, err := netio.ListenTCP(netip.AddrPortFrom(testAddress(t), 8080))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client = dialTest(t, l.Addr().(*net.TCPAddr).AddrPort())
	server, err = l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

func TestTC12AllDead(t *testing.T) {
	r := newRig(t, Config{})
	l := listener(tcpPort(8080), deadAddress(t), deadAddress(t))
	l.Timeouts.MemberConnect = time.Hour // no pause of ours may depend on it
	r.set(l)
	r.refused(8080)
	r.closedBy(tcpPort(8080), ReasonConnect)
}

func TestTC14ServerSpeaksFirst(t *testing.T) {
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8025), named(t, "220 ready")))
	if got := read(t, r.dial(8025), 9); got != "220 ready" {
		t.Errorf("got %q, want the server's greeting", got)
	}
}
