// The race detector allocates, and lets pools forget.

//go:build !race

package proxy

import (
	"net"
	"net/netip"
	"testing"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// What a round trip through the proxy allocates is counted in the whole process,
// so client and member must not allocate either; netio's sockets do not.

func TestNoAllocationPerChunk(t *testing.T) {
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080), backend(t, func(c *net.TCPConn) {
		buf := make([]byte, 1000)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
	})))
	c := r.dial(8080)
	buf := make([]byte, 1000)
	got := testing.AllocsPerRun(2000, func() {
		if _, err := c.Write(buf); err != nil {
			t.Fatal(err)
		}
		for left := len(buf); left > 0; {
			n, err := c.Read(buf[:left])
			if err != nil {
				t.Fatal(err)
			}
			left -= n
		}
	})
	// One is that of the race detector, which makes sync.Pool forget. An
	// allocation for each chunk would be two.
	if got > 1 {
		t.Errorf("a chunk there and back allocates %v times", got)
	}
}

func TestNoAllocationPerDatagram(t *testing.T) {
	for name, version := range map[string]model.ProxyProtocol{"Plain": model.ProxyNone, "ProxyV2": model.ProxyV2} {
		t.Run(name, func(t *testing.T) {
			at := udpAddress(t)
			udpBackend(t, at, func(b []byte, _ netip.AddrPort) []byte { return b })
			r := newRig(t, Config{})
			l := listener(udpPort(5353), at)
			l.Pool.ProxyProtocol = version
			r.set(l)
			c := r.udp(5353)
			buf := make([]byte, 1000)
			got := testing.AllocsPerRun(2000, func() {
				if _, err := c.Write(buf[:100]); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Read(buf); err != nil {
					t.Fatal(err)
				}
			})
			if got >= 1 {
				t.Errorf("a datagram there and back allocates %v times", got)
			}
		})
	}
}
