package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	pires "github.com/pires/go-proxyproto"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

// believing is a member that speaks first, as soon as it has read the header,
// and then echoes. It says what it believes, as one line.
func believing(t *testing.T, at netip.AddrPort) netip.AddrPort {
	t.Helper()
	at, _ = backendAt(t, at, func(c *net.TCPConn) {
		in := bufio.NewReader(c)
		h, err := pires.Read(in)
		switch {
		case err != nil:
			fmt.Fprintf(c, "%v\n", err)
		case h.Command.IsLocal():
			fmt.Fprintln(c, "local")
		default:
			fmt.Fprintf(c, "v%d %v>%v\n", h.Version, h.SourceAddr, h.DestinationAddr)
		}
		_, _ = io.Copy(c, in)
	})
	return at
}

// TestPPW01HeaderBeforeAnyByte covers PPA-01 (client and dialled address),
// PPA-02 (the client's family, not the member's) and PPW-01 (a client that
// waits for the server to speak) for both versions and all pairs of families.
func TestPPW01HeaderBeforeAnyByte(t *testing.T) {
	six := netip.IPv6Loopback()
	cases := map[string]struct {
		reason      string
		version     model.ProxyProtocol
		vip, member netip.Addr
	}{
		"PPA01V1IPv4":           {reason: "version 1 over IPv4", version: model.ProxyV1, vip: testAddress(t), member: testAddress(t)},
		"PPA01V2IPv4":           {reason: "version 2 over IPv4", version: model.ProxyV2, vip: testAddress(t), member: testAddress(t)},
		"PPA01V1IPv6":           {reason: "version 1 over IPv6", version: model.ProxyV1, vip: six, member: six},
		"PPA01V2IPv6":           {reason: "version 2 over IPv6", version: model.ProxyV2, vip: six, member: six},
		"PPA02V1IPv4ClientOnly": {reason: "an IPv6 member learns of an IPv4 client", version: model.ProxyV1, vip: testAddress(t), member: six},
		"PPA02V2IPv4ClientOnly": {reason: "an IPv6 member learns of an IPv4 client", version: model.ProxyV2, vip: testAddress(t), member: six},
		"PPA02V2IPv6ClientOnly": {reason: "an IPv4 member learns of an IPv6 client", version: model.ProxyV2, vip: six, member: testAddress(t)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			r.vip = tc.vip
			port := freePort(t, tc.vip)
			l := listener(tcpPort(port), believing(t, netip.AddrPortFrom(tc.member, freePort(t, tc.member))))
			l.Pool.ProxyProtocol = tc.version
			r.set(l)
			c := r.dial(port)
			want := fmt.Sprintf("%s %v>%v\n", tc.version, netio.Local(c), r.at(port))
			if got := read(t, c, len(want)); got != want {
				t.Errorf("%s: the member believed %q, want %q", tc.reason, got, want)
			}
			write(t, c, "after the header")
			if got := read(t, c, 16); got != "after the header" { // PPW04: one header only
				t.Errorf("%s: echoed %q", tc.reason, got)
			}
		})
	}
}

// freePort returns a port of an address that nobody has now.
func freePort(t *testing.T, a netip.Addr) uint16 {
	t.Helper()
	l, err := netio.ListenTCP(netip.AddrPortFrom(a, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort().Port()
}

// TestPPW02OneWrite counts segments by reading once: the whole header is there
// with the first byte, and PPW-03, so is what the client had sent already.
func TestPPW02OneWrite(t *testing.T) {
	for _, version := range []model.ProxyProtocol{model.ProxyV1, model.ProxyV2} {
		t.Run(string(version), func(t *testing.T) {
			got := make(chan string, 1)
			at := netip.AddrPortFrom(testAddress(t), 8080)
			r := newRig(t, Config{})
			l := listener(tcpPort(8080), at)
			l.Pool.ProxyProtocol = version
			p := New(Config{})
			svc := newService(p, r.owner, l)
			svc.apply(l)
			client, server := tcpPair(t)
			write(t, client, "early")
			eventually(t, "the bytes have arrived", func() bool {
				unacked, _, err := netio.Progress(client)
				return err == nil && unacked == 0
			})
			backendAt(t, at, func(c *net.TCPConn) {
				buf := make([]byte, 200)
				n, _ := c.Read(buf)
				got <- string(buf[:n])
				_, _ = io.Copy(c, c)
			})
			x := newSession(t.Context(), svc, server)
			done := make(chan struct{})
			x.over = func() { close(done) }
			p.tasks.start(t.Context())
			p.tasks.add(x.serve)
			want := string(appendHeader(nil, version, netio.Local(client), netio.Remote(client), nil)) + "early"
			if s := take(t, got); s != want {
				t.Errorf("the first read gave %q, want %q", s, want)
			}
			write(t, client, "late") // PPW05: the rest follows by splice
			if s := read(t, client, 4); s != "late" {
				t.Errorf("echoed %q, want late", s)
			}
			_ = client.Close()
			<-done
		})
	}
}

// TestPPW04HeaderForEachTry has the first member take the connection and fail
// before the header is through; the next one gets a header of its own.
func TestPPW04HeaderForEachTry(t *testing.T) {
	r := newRig(t, Config{})
	l := listener(tcpPort(8080), deadAddress(t), believing(t, netip.AddrPortFrom(testAddress(t), 8080)))
	l.Pool.ProxyProtocol = model.ProxyV1
	r.set(l)
	for range 4 {
		c := r.dial(8080)
		want := fmt.Sprintf("v1 %v>%v\n", netio.Local(c), r.at(8080))
		if got := read(t, c, len(want)); got != want {
			t.Errorf("the member believed %q, want %q", got, want)
		}
		_ = c.Close()
	}
}

// TestPPW07LiveSwitch turns the header on and off: new connections follow,
// established ones go on as they began (incident 47).
func TestPPW07LiveSwitch(t *testing.T) {
	r := newRig(t, Config{})
	got := make(chan string, 10)
	at := backend(t, func(c *net.TCPConn) {
		buf := make([]byte, 200)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			got <- string(buf[:n])
		}
	})
	l := listener(tcpPort(8080), at)
	r.set(l)
	plain := r.dial(8080)
	write(t, plain, "1")
	if s := take(t, got); s != "1" {
		t.Errorf("got %q, want 1", s)
	}
	l.Pool.ProxyProtocol = model.ProxyV1
	r.set(l)
	proxied := r.dial(8080)
	if s, want := take(t, got), string(appendHeader(nil, model.ProxyV1, netio.Local(proxied), r.at(8080), nil)); s != want {
		t.Errorf("got %q, want %q", s, want)
	}
	write(t, plain, "2")
	if s := take(t, got); s != "2" {
		t.Errorf("the old connection brought %q, want 2", s)
	}
	l.Pool.ProxyProtocol = model.ProxyNone
	r.set(l)
	write(t, proxied, "3")
	if s := take(t, got); s != "3" {
		t.Errorf("the connection with a header brought %q, want 3", s)
	}
	write(t, r.dial(8080), "4")
	if s := take(t, got); s != "4" {
		t.Errorf("a new connection brought %q, want 4", s)
	}
}

// TestPPH01ChecksSendAHeader: version 2 says LOCAL, version 1 has no such word
// and names the check's own addresses (incidents 2 and 10).
func TestPPH01ChecksSendAHeader(t *testing.T) {
	cases := map[string]struct {
		reason  string
		version model.ProxyProtocol
		want    func(from, to netip.AddrPort) string
	}{
		"None": {reason: "no header in the pool, none in the check", want: func(_, _ netip.AddrPort) string { return "" }},
		"PP105V1": {
			reason: "the check's own addresses", version: model.ProxyV1,
			want: func(from, to netip.AddrPort) string { return string(appendHeader(nil, model.ProxyV1, from, to, nil)) },
		},
		"V2": {
			reason: "LOCAL", version: model.ProxyV2,
			want: func(_, _ netip.AddrPort) string { return "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00" },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			type seen struct {
				bytes    string
				from, to netip.AddrPort
			}
			got := make(chan seen, 1)
			at := backend(t, func(c *net.TCPConn) {
				b, _ := io.ReadAll(c)
				got <- seen{string(b), netio.Remote(c), netio.Local(c)}
			})
			plan := checkPlan{monitor: completedMonitor(model.Monitor{Type: "TCP"}), header: tc.version}
			ctx, cancel := context.WithTimeout(t.Context(), patienceOfTests)
			defer cancel()
			if err := probe(ctx, target{at, plan}); err != nil {
				t.Fatal(err)
			}
			s := take(t, got)
			if want := tc.want(s.from, s.to); s.bytes != want {
				t.Errorf("%s: the member got %q, want %q", tc.reason, s.bytes, want)
			}
		})
	}
}
