package proxy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// What the DNS servers of these tests answer: to the client that a header must
// name, and to everybody else.
func believedAnswer() netip.Addr { return netip.MustParseAddr("192.0.2.77") }
func otherAnswer() netip.Addr    { return netip.MustParseAddr("192.0.2.55") }

// startUnbound starts a resolver that requires PROXY protocol and has a view of
// its own for the client.
func startUnbound(t *testing.T, client netip.Addr) netip.AddrPort {
	t.Helper()
	path := program(t, "unbound", "unbound")
	at := netip.AddrPortFrom(testAddress(t), 5300)
	config := fmt.Sprintf(`
server:
  interface: %[1]s@%[2]d
  port: %[2]d
  proxy-protocol-port: %[2]d
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "DIR"
  pidfile: ""
  use-syslog: no
  do-ip6: no
  num-threads: 1
  module-config: "iterator"
  access-control: 127.0.0.0/8 allow
  access-control-view: %[3]s/32 believed
  local-zone: "example.test." static
  local-data: "a.example.test. IN A %[5]s"
remote-control:
  control-enable: no
view:
  name: "believed"
  local-zone: "example.test." static
  local-data: "a.example.test. IN A %[4]s"
`, at.Addr(), at.Port(), client, believedAnswer(), otherAnswer())
	start(t, config, []netip.AddrPort{at}, func(file string) *exec.Cmd { return exec.Command(path, "-d", "-c", file) })
	return at
}

func startDNSDist(t *testing.T, client netip.Addr) netip.AddrPort {
	t.Helper()
	path := program(t, "dnsdist", "dnsdist")
	at := netip.AddrPortFrom(testAddress(t), 5300)
	config := fmt.Sprintf(`
setLocal("%s")
setSecurityPollSuffix("")
setACL({"127.0.0.0/8"})
setProxyProtocolACL({"127.0.0.0/8"})
addAction("%s/32", SpoofAction("%s"))
addAction(AllRule(), SpoofAction("%s"))
`, at, client, believedAnswer(), otherAnswer())
	start(t, config, []netip.AddrPort{at}, func(file string) *exec.Cmd {
		return exec.Command(path, "-C", file, "--supervised", "--disable-syslog")
	})
	return at
}

// query asks for the address of a.example.test (RFC 1035 §4.1).
func query(id uint16) []byte {
	q := binary.BigEndian.AppendUint16(nil, id)
	q = append(q, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) // recursion desired, one question
	for _, label := range []string{"a", "example", "test"} {
		q = append(q, byte(len(label)))
		q = append(q, label...)
	}
	return append(q, 0, 0, 1, 0, 1) // the root; type A, class IN
}

// answerTo returns the address in the answer to a query.
func answerTo(t *testing.T, c net.Conn, id uint16) netip.Addr {
	t.Helper()
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatalf("reading the answer to query %d: %v", id, err)
	}
	if got := binary.BigEndian.Uint16(buf); n < 20 || got != id {
		t.Fatalf("%d bytes with id %d, want the answer to %d", n, got, id)
	}
	// One record: the address is in its last four bytes, unless EDNS follows.
	for _, a := range []netip.Addr{believedAnswer(), otherAnswer()} {
		if bytes.Contains(buf[:n], a.AsSlice()) {
			return a
		}
	}
	t.Fatalf("an answer without an address: %x", buf[:n])
	return netip.Addr{}
}

// TestPPU04RealDNSServers lets two DNS servers read the header in front of each
// datagram (incident 1: a header on the first datagram only). Replies carry
// none, or they would be no DNS (PPU-02).
func TestPPU04RealDNSServers(t *testing.T) {
	for name, startServer := range map[string]func(*testing.T, netip.Addr) netip.AddrPort{"Unbound": startUnbound, "DNSDist": startDNSDist} {
		t.Run(name, func(t *testing.T) {
			client := testAddress(t)
			at := startServer(t, client)
			r := newRig(t, Config{})
			l := listener(udpPort(5353), at)
			l.Pool.ProxyProtocol = model.ProxyV2
			plain := listener(udpPort(5354), at)
			r.set(l, plain)

			c := udpFrom(t, client, r.at(5353))
			for id := range uint16(5) {
				write(t, c, string(query(id)))
				if got := answerTo(t, c, id); got != believedAnswer() {
					t.Errorf("datagram %d of the client got %s, want %s", id, got, believedAnswer())
				}
			}
			other := udpFrom(t, testAddress(t), r.at(5353))
			write(t, other, string(query(9)))
			if got := answerTo(t, other, 9); got != otherAnswer() {
				t.Errorf("another client got %s, want %s", got, otherAnswer())
			}
			// With an id, the header is longer and still understood.
			l.Pool.UniqueID = true
			r.set(l, plain)
			c = udpFrom(t, client, r.at(5353))
			write(t, c, string(query(10)))
			if got := answerTo(t, c, 10); got != believedAnswer() {
				t.Errorf("with an id in the header the client got %s, want %s", got, believedAnswer())
			}
			silentWithoutHeader(t, udpFrom(t, client, r.at(5354)))
		})
	}
}

// silentWithoutHeader is the control: without a header there is no answer that
// would name the client.
func silentWithoutHeader(t *testing.T, c *net.UDPConn) {
	t.Helper()
	write(t, c, string(query(11)))
	if err := c.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	if n, err := c.Read(buf); err == nil && strings.Contains(string(buf[:n]), string(believedAnswer().AsSlice())) {
		t.Errorf("without a header the client was believed: %x", buf[:n])
	}
}

// udpFrom returns a socket from an address to another.
func udpFrom(t *testing.T, from netip.Addr, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patienceOfTests)); err != nil {
		t.Fatal(err)
	}
	return c
}
