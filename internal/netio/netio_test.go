package netio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

// limit bounds every wait; only a failing test waits so long.
const limit = 20 * time.Second

// pair returns both ends of a connection.
func pair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	l, err := ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	client, err = DialTCP(ctx, l.Addr().(*net.TCPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*net.TCPConn{client, server} {
		t.Cleanup(func() { _ = c.Close() })
		if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
			t.Fatal(err)
		}
	}
	return client, server
}

func TestAddresses(t *testing.T) {
	client, server := pair(t)
	if Local(client) != Remote(server) || Remote(client) != Local(server) {
		t.Errorf("the two ends disagree: %v %v and %v %v", Local(client), Remote(client), Remote(server), Local(server))
	}
	mapped := netip.MustParseAddrPort("[::ffff:192.0.2.1]:80")
	if got := Unmap(mapped); got != netip.MustParseAddrPort("192.0.2.1:80") {
		t.Errorf("unmapped to %v", got)
	}
}

func TestPumpCarriesEverything(t *testing.T) {
	client, in := pair(t)
	out, member := pair(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() {
		_, _ = client.Write(want)
		_ = client.CloseWrite()
	}()
	ended := make(chan error, 1)
	go func() {
		p, err := NewPump(out, in, new(Buffers))
		for err == nil {
			if err = p.Wait(); err == nil {
				_, err = p.Move()
			}
		}
		ended <- errors.Join(out.CloseWrite(), err)
	}()
	got, err := io.ReadAll(member)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v; want the %d that were sent", len(got), err, len(want))
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("the pump ended with %v, want EOF", err)
	}
}

func TestPumpTellsWhoFailed(t *testing.T) {
	t.Run("Source", func(t *testing.T) {
		client, in := pair(t)
		out, _ := pair(t)
		p, err := NewPump(out, in, new(Buffers))
		if err != nil {
			t.Fatal(err)
		}
		if err := Reset(client); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); CauseOf(err) != WasReset {
			t.Errorf("waiting gave %v, want a reset", err)
		}
	})
	t.Run("Destination", func(t *testing.T) {
		client, in := pair(t)
		out, member := pair(t)
		p, err := NewPump(out, in, new(Buffers))
		if err != nil {
			t.Fatal(err)
		}
		if err := Reset(member); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			if _, err := client.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := p.Wait(); err != nil {
				t.Fatalf("waiting gave %v, but the source is well", err)
			}
			_, err = p.Move()
		}
		if CauseOf(err) != WasReset {
			t.Errorf("moving gave %v, want a reset", err)
		}
	})
	t.Run("Deadline", func(t *testing.T) {
		_, in := pair(t)
		out, _ := pair(t)
		p, err := NewPump(out, in, new(Buffers))
		if err != nil {
			t.Fatal(err)
		}
		if err := in.SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("waiting gave %v, want the deadline", err)
		}
	})
}

func TestCauseOf(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	l, err := ListenTCP(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	_, inUse := ListenTCP(at)
	_ = l.Close()
	_, refused := DialTCP(ctx, at)
	_, absent := ListenTCP(netip.MustParseAddrPort("192.0.2.1:0"))
	past, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	_, late := DialTCP(past, at)
	cases := map[string]struct {
		reason string
		err    error
		want   Cause
	}{
		"None":         {reason: "no error", want: Unknown},
		"Other":        {reason: "an error of ours", err: io.EOF, want: Unknown},
		"AddressInUse": {reason: "two listeners on one port", err: inUse, want: AddressInUse},
		"Refused":      {reason: "nobody listens", err: refused, want: Refused},
		"Absent":       {reason: "an address of somebody else", err: absent, want: AddressAbsent},
		"Late":         {reason: "the context's deadline", err: late, want: TimedOut},
		"Wrapped":      {reason: "wrapping hides nothing", err: fmt.Errorf("serving: %w", refused), want: Refused},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := CauseOf(tc.err); got != tc.want {
				t.Errorf("%s: %v is %q, want %q", tc.reason, tc.err, got, tc.want)
			}
		})
	}
}

func TestUDPBothFamilies(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(at, func(t *testing.T) {
			server, err := ListenUDP(netip.MustParseAddrPort(at))
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			client, err := DialUDP(server.LocalAddr().(*net.UDPAddr).AddrPort())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if _, err := client.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			_ = server.SetDeadline(time.Now().Add(limit))
			buf := make([]byte, 2)
			n, from, err := server.ReadFromUDPAddrPort(buf)
			if err != nil || n != 1 || Unmap(from) != Local(client) {
				t.Errorf("got %d bytes from %v, %v; want 1 from %v", n, from, err, Local(client))
			}
		})
	}
}

func TestOpenFiles(t *testing.T) {
	if n, err := OpenFiles(); err != nil || n == 0 {
		t.Errorf("limit %d, %v", n, err)
	}
}
