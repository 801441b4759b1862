package proxy

import (
	"bufio"
	"net"
	"net/netip"
	"strings"
	"testing"

	pires "github.com/pires/go-proxyproto"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// idOf returns the UNIQUE_ID that an independent parser finds in a header.
func idOf(h *pires.Header) string {
	tlvs, err := h.TLVs()
	if err != nil || len(tlvs) != 1 || tlvs[0].Type != pires.PP2_TYPE_UNIQUE_ID {
		return ""
	}
	return string(tlvs[0].Value)
}

func withID(l model.Listener) model.Listener {
	l.Pool.ProxyProtocol, l.Pool.UniqueID = model.ProxyV2, true
	return l
}

// TestPP206UniqueIDs: every connection has its own, and keeps it when the first
// member that was tried refuses (incident 4: one TLV list for all).
func TestPP206UniqueIDs(t *testing.T) {
	ids := make(chan string, 10)
	member := backend(t, func(c *net.TCPConn) {
		h, err := pires.Read(bufio.NewReader(c))
		if err != nil {
			ids <- err.Error()
			return
		}
		ids <- idOf(h)
	})
	r := newRig(t, Config{})
	r.set(withID(listener(tcpPort(8080), member, deadAddress(t))))
	seen := map[string]bool{}
	for range 6 {
		c := r.dial(8080)
		id := <-ids
		if len(id) != 16 || seen[id] {
			t.Errorf("id %q, want 16 bytes of its own", id)
		}
		seen[id] = true
		_ = c.Close()
	}
}

// TestPP206UniqueIDOfAFlow: all datagrams of a flow have the same id.
func TestPP206UniqueIDOfAFlow(t *testing.T) {
	at := udpAddress(t)
	udpBackend(t, at, func(b []byte, _ netip.AddrPort) []byte {
		h, err := pires.Read(bufio.NewReader(strings.NewReader(string(b))))
		if err != nil {
			return []byte(err.Error())
		}
		return []byte(idOf(h))
	})
	r := newRig(t, Config{})
	r.set(withID(listener(udpPort(5353), at)))
	one, two := r.udp(5353), r.udp(5353)
	first, again, other := ask(t, one, "x"), ask(t, one, "y"), ask(t, two, "x")
	if len(first) != 16 || again != first || other == first {
		t.Errorf("ids %q and %q of one flow, %q of another", first, again, other)
	}
}

func TestPP206UniqueIDNeedsV2(t *testing.T) {
	r := newRig(t, Config{})
	l := withID(listener(tcpPort(8080), named(t, "a")))
	l.Pool.ProxyProtocol = model.ProxyV1
	faults := r.Set(r.owner, "uid", []netip.Addr{r.vip}, []model.Listener{l})
	if len(faults) != 1 || faults[0].Reason != ProxyProtocolNotSupported {
		t.Errorf("faults %+v, want %s", faults, ProxyProtocolNotSupported)
	}
}
