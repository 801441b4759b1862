package proxy

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/netio"
)

func TestTC01HalfClose(t *testing.T) {
	const up, down = 100_000, 5_000
	member := backend(t, func(c *net.TCPConn) {
		n, err := io.Copy(io.Discard, c)
		if n == up && err == nil {
			_, _ = c.Write(bytes.Repeat([]byte("x"), down))
		}
	})
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080), member))
	c := r.dial(8080)
	write(t, c, string(bytes.Repeat([]byte("y"), up)))
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := mustFinish(t, c); len(got) != down {
		t.Errorf("got %d bytes after our FIN, want %d", len(got), down)
	}
	r.closedBy(tcpPort(8080), ReasonDone)
	got := r.port(tcpPort(8080)).Members[0]
	if got.ToMember != up || got.FromMember != down {
		t.Errorf("counted %d bytes to the member and %d from it, want %d and %d", got.ToMember, got.FromMember, up, down)
	}
}

// TestTC01MemberHalfClose is the other way round: the member ends first and
// still gets what the client sends.
func TestTC01MemberHalfClose(t *testing.T) {
	got := make(chan string, 1)
	member := backend(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "bye")
		_ = c.CloseWrite()
		all, _ := io.ReadAll(c)
		got <- string(all)
	})
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080), member))
	c := r.dial(8080)
	if s := mustFinish(t, c); s != "bye" {
		t.Errorf("got %q, want %q", s, "bye")
	}
	write(t, c, "still here")
	_ = c.Close()
	if s := take(t, got); s != "still here" {
		t.Errorf("the member got %q, want %q", s, "still here")
	}
	r.closedBy(tcpPort(8080), ReasonDone)
}

// TestTC02FinTimeout: a pair of which one side has ended does not live on for
// an hour (incident 14).
func TestTC02FinTimeout(t *testing.T) {
	member := backend(t, func(c *net.TCPConn) {
		_, _ = io.Copy(io.Discard, c) // the client's FIN; then this side stays open
		_ = netio.WaitBroken(c)
	})
	r := newRig(t, Config{FinTimeout: 100 * time.Millisecond})
	r.set(listener(tcpPort(8080), member))
	c := r.dial(8080)
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	mustFinish(t, c)
	r.closedBy(tcpPort(8080), ReasonFin)
}

func TestTC03ClientReset(t *testing.T) {
	ended := make(chan error, 1)
	member := backend(t, func(c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080), member))
	c := r.dial(8080)
	write(t, c, "cut upload")
	eventually(t, "the upload arrives", func() bool { return r.port(tcpPort(8080)).Members[0].ToMember > 0 })
	if err := netio.Reset(c); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; netio.CauseOf(err) != netio.WasReset {
		t.Errorf("the member's connection ended with %v, want a reset", err)
	}
	r.closedBy(tcpPort(8080), ReasonClientReset)
}

// TestTC03ResetAfterFin covers the time in which nobody reads from the client.
func TestTC03ResetAfterFin(t *testing.T) {
	finished, ended := make(chan error, 1), make(chan error, 1)
	member := backend(t, func(c *net.TCPConn) {
		_, err := io.Copy(io.Discard, c)
		finished <- err
		ended <- netio.WaitBroken(c)
	})
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080), member))
	c := r.dial(8080)
	_ = c.CloseWrite()
	if err := <-finished; err != nil {
		t.Fatalf("the member's stream ended with %v, want FIN", err)
	}
	if err := netio.Reset(c); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; netio.CauseOf(err) != netio.WasReset {
		t.Errorf("the member's connection ended with %v, want a reset", err)
	}
	r.closedBy(tcpPort(8080), ReasonClientReset)
}

func TestTC04MemberReset(t *testing.T) {
	member := backend(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "half a download")
		buf := make([]byte, 1)
		_, _ = c.Read(buf)
		_ = c.SetLinger(0) // and the harness closes
	})
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080), member))
	c := r.dial(8080)
	read(t, c, len("half a download"))
	write(t, c, "x")
	mustReset(t, c)
	r.closedBy(tcpPort(8080), ReasonMemberReset)
}

// TestTC05BytesBeforeFin: a FIN overtakes no bytes, wherever they sit (incident 15).
func TestTC05BytesBeforeFin(t *testing.T) {
	const size = 4 << 20
	member := backend(t, func(c *net.TCPConn) {
		_, _ = c.Write(bytes.Repeat([]byte("z"), size))
	})
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080), member))
	c := r.dial(8080)
	// A small receive buffer keeps most bytes in the relay when the FIN comes.
	if err := c.SetReadBuffer(32 << 10); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the member has sent what fits", func() bool { return r.port(tcpPort(8080)).Members[0].FromMember > 0 })
	if got := mustFinish(t, c); len(got) != size {
		t.Errorf("got %d bytes before FIN, want %d", len(got), size)
	}
	_ = c.Close()
	r.closedBy(tcpPort(8080), ReasonDone)
}

// TestTC06LastBytes closes on the member's side with unread bytes: the kernel
// makes a RST of that, and the answer sent before it must have gone out first.
func TestTC06LastBytes(t *testing.T) {
	member := backend(t, func(c *net.TCPConn) {
		buf := make([]byte, 1)
		_, _ = io.ReadFull(c, buf)
		_, _ = io.WriteString(c, "too large")
		_, _ = io.ReadFull(c, buf) // the client has the answer; its second byte is here
	})
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080), member))
	c := r.dial(8080)
	write(t, c, "1")
	if got := read(t, c, len("too large")); got != "too large" {
		t.Errorf("got %q, want the member's last words", got)
	}
	write(t, c, "234567")
	mustReset(t, c)
}

func TestTC07Idle(t *testing.T) {
	t.Run("FIN", func(t *testing.T) {
		ended := make(chan error, 1)
		member := backend(t, func(c *net.TCPConn) {
			_, err := io.Copy(io.Discard, c)
			ended <- err
		})
		r := newRig(t, Config{})
		l := listener(tcpPort(8080), member)
		l.Timeouts.ClientData = 100 * time.Millisecond
		r.set(l)
		c := r.dial(8080)
		mustFinish(t, c)
		if err := <-ended; err != nil {
			t.Errorf("the member's connection ended with %v, want FIN", err)
		}
		r.closedBy(tcpPort(8080), ReasonClientIdle)
	})
	t.Run("RST", func(t *testing.T) {
		ended := make(chan error, 1)
		flood := make([]byte, 64<<20)
		member := backend(t, func(c *net.TCPConn) {
			_, err := c.Write(flood)
			ended <- err
		})
		r := newRig(t, Config{})
		l := listener(tcpPort(8080), member)
		l.Timeouts.MemberData = time.Second
		r.set(l)
		c := r.dial(8080)
		if err := <-ended; err == nil {
			t.Error("64 MiB went out to a client that reads nothing")
		}
		mustReset(t, c)
	})
}

// TestIncident17SpliceNeitherStallsNorHangs moves messages that are large enough
// for splice back and forth: a stall of 200 ms in each of them, as a wrong flag
// once caused, would take longer than the connection has.
func TestIncident17SpliceNeitherStallsNorHangs(t *testing.T) {
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080), backend(t, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })))
	c := r.dial(8080)
	const trips, size = 200, 50_000
	sent := strings.Repeat("0123456789", size/10)
	for range trips {
		write(t, c, sent)
		if got := read(t, c, size); got != sent {
			t.Fatal("the message came back changed")
		}
	}
}

// TestIncident17CloseDuringSplice ends a connection while bytes are stuck on
// their way to a member that does not read: both sides end at once.
func TestIncident17CloseDuringSplice(t *testing.T) {
	ended := make(chan struct{})
	reads := make(chan struct{})
	r := newRig(t, Config{DrainTimeout: -1})
	r.set(listener(tcpPort(8080), backend(t, func(c *net.TCPConn) {
		<-reads
		_, err := io.Copy(io.Discard, c)
		if netio.CauseOf(err) != netio.WasReset {
			t.Errorf("the member's connection ended with %v, want a reset", err)
		}
		close(ended)
	})))
	c := r.dial(8080)
	stuck := make(chan error, 1)
	go func() {
		_, err := io.Copy(c, zeros{})
		stuck <- err
	}()
	var before uint64
	eventually(t, "no byte moves any more", func() bool {
		now := r.port(tcpPort(8080)).Members[0].ToMember
		still := now > 0 && now == before
		before = now
		return still
	})
	r.set()
	if err := <-stuck; netio.CauseOf(err) != netio.WasReset {
		t.Errorf("the client's write ended with %v, want a reset", err)
	}
	close(reads)
	<-ended
}

// zeros is a stream without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
