package proxyproto

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	pires "github.com/pires/go-proxyproto"
)

func ap(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func TestPP101Line(t *testing.T) {
	longest := netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
	cases := map[string]struct {
		reason   string
		src, dst netip.AddrPort
		want     string
	}{
		"PP101TCP4": {
			reason: "one line, one space between fields, CRLF at the end",
			src:    ap("203.0.113.7:5555"), dst: ap("192.0.2.1:443"), want: "PROXY TCP4 203.0.113.7 192.0.2.1 5555 443\r\n",
		},
		"PP101TCP6": {
			reason: "IPv6 in its canonical text",
			src:    ap("[2001:db8::7]:5555"), dst: ap("[2001:db8::1]:443"), want: "PROXY TCP6 2001:db8::7 2001:db8::1 5555 443\r\n",
		},
		"PP103Ports": {
			reason: "ports have no leading zeros, and both ends of the range fit",
			src:    ap("203.0.113.7:0"), dst: ap("192.0.2.1:65535"), want: "PROXY TCP4 203.0.113.7 192.0.2.1 0 65535\r\n",
		},
		"PP103Zone": {
			reason: "a zone means nothing to the receiver",
			src:    ap("[fe80::7%eth0]:1"), dst: ap("[fe80::1%eth0]:2"), want: "PROXY TCP6 fe80::7 fe80::1 1 2\r\n",
		},
		"PPA03Mapped": {
			reason: "a dual-stack listener's mapped addresses are IPv4",
			src:    ap("[::ffff:203.0.113.7]:5555"), dst: ap("[::ffff:192.0.2.1]:443"), want: "PROXY TCP4 203.0.113.7 192.0.2.1 5555 443\r\n",
		},
		"PP104PPA04Mixed": {
			reason: "both addresses are of the family that the line names",
			src:    ap("[2001:db8::7]:5555"), dst: ap("192.0.2.1:443"), want: "PROXY TCP6 2001:db8::7 ::ffff:192.0.2.1 5555 443\r\n",
		},
		"PP102LongestTCP4": {
			reason: "56 bytes at most",
			src:    ap("255.255.255.255:65535"), dst: ap("255.255.255.255:65535"),
			want: "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
		},
		"PP102LongestTCP6": {
			reason: "104 bytes at most",
			src:    netip.AddrPortFrom(longest, 65535), dst: netip.AddrPortFrom(longest, 65535),
			want: "PROXY TCP6 " + longest.String() + " " + longest.String() + " 65535 65535\r\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := string(AppendV1(nil, tc.src, tc.dst))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			limit := map[bool]int{true: 56, false: 104}[strings.HasPrefix(got, "PROXY TCP4")]
			if len(got) > limit {
				t.Errorf("the line has %d bytes, more than %d", len(got), limit)
			}
		})
	}
}

func TestPP211GoldenBytes(t *testing.T) {
	const sig = "0d0a0d0a000d0a515549540a"
	cases := map[string]struct {
		reason string
		got    []byte
		want   string
	}{
		"PP201TCP4": {
			reason: "signature, version and command, family and transport, length, addresses, ports",
			got:    AppendV2(nil, Stream, ap("203.0.113.7:5555"), ap("192.0.2.1:443")),
			want:   sig + "2111000c" + "cb007107" + "c0000201" + "15b3" + "01bb",
		},
		"PP202TCP6": {
			reason: "36 bytes of addresses",
			got:    AppendV2(nil, Stream, ap("[2001:db8::7]:5555"), ap("[2001:db8::1]:443")),
			want:   sig + "21210024" + "20010db8000000000000000000000007" + "20010db8000000000000000000000001" + "15b3" + "01bb",
		},
		"PPU01UDP4": {
			reason: "byte 14 says datagram",
			got:    AppendV2(nil, Datagram, ap("203.0.113.7:5555"), ap("192.0.2.1:53")),
			want:   sig + "2112000c" + "cb007107" + "c0000201" + "15b3" + "0035",
		},
		"PPU01UDP6": {
			reason: "byte 14 says datagram",
			got:    AppendV2(nil, Datagram, ap("[2001:db8::7]:5555"), ap("[2001:db8::1]:53")),
			want:   sig + "21220024" + "20010db8000000000000000000000007" + "20010db8000000000000000000000001" + "15b3" + "0035",
		},
		"PP206UniqueID4": {
			reason: "the id is a TLV of type 5, and its 19 bytes count; 47 in all",
			got:    AppendV2ID(nil, Stream, ap("203.0.113.7:5555"), ap("192.0.2.1:443"), []byte("0123456789abcdef")),
			want:   sig + "2111001f" + "cb007107" + "c0000201" + "15b3" + "01bb" + "050010" + "30313233343536373839616263646566",
		},
		"PP206UniqueID6": {
			reason: "the same after IPv6 addresses; 71 in all",
			got:    AppendV2ID(nil, Stream, ap("[2001:db8::7]:5555"), ap("[2001:db8::1]:443"), []byte("0123456789abcdef")),
			want: sig + "21210037" + "20010db8000000000000000000000007" + "20010db8000000000000000000000001" + "15b3" + "01bb" +
				"050010" + "30313233343536373839616263646566",
		},
		"PP211Short": {
			reason: "the golden bytes of an id of three",
			got:    AppendV2ID(nil, Stream, ap("203.0.113.7:5555"), ap("192.0.2.1:443"), []byte("abc")),
			want:   sig + "21110012" + "cb007107" + "c0000201" + "15b3" + "01bb" + "050003" + "616263",
		},
		"PP210NoOtherTLV": {
			reason: "nothing but an id is ever said, so no custom type is",
			got:    AppendV2ID(nil, Stream, ap("203.0.113.7:5555"), ap("192.0.2.1:443"), nil),
			want:   sig + "2111000c" + "cb007107" + "c0000201" + "15b3" + "01bb",
		},
		"PP203Local": {
			reason: "LOCAL has family 0 and length 0",
			got:    AppendLocal(nil), want: sig + "20000000",
		},
		"PPA03Mapped": {
			reason: "mapped addresses are IPv4",
			got:    AppendV2(nil, Stream, ap("[::ffff:203.0.113.7]:5555"), ap("[::ffff:192.0.2.1]:443")),
			want:   sig + "2111000c" + "cb007107" + "c0000201" + "15b3" + "01bb",
		},
		"PPA04Mixed": {
			reason: "the IPv4 address is mapped",
			got:    AppendV2(nil, Stream, ap("203.0.113.7:5555"), ap("[2001:db8::1]:443")),
			want:   sig + "21210024" + "00000000000000000000ffffcb007107" + "20010db8000000000000000000000001" + "15b3" + "01bb",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, hex.EncodeToString(tc.got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if len(tc.got) > MaxLen {
				t.Errorf("PP2-05: %d bytes, more than %d", len(tc.got), MaxLen)
			}
		})
	}
}

// TestPP205Lengths ties the constants that callers reserve room by to what is
// written.
func TestPP205Lengths(t *testing.T) {
	v4, v6 := ap("203.0.113.7:1"), ap("[2001:db8::7]:1")
	got := []int{len(AppendV2(nil, Stream, v4, v4)), len(AppendV2(nil, Datagram, v6, v6)), len(AppendLocal(nil))}
	if diff := cmp.Diff([]int{LenV2IPv4, LenV2IPv6, LenV2Local}, got); diff != "" {
		t.Errorf("lengths (-want +got):\n%s", diff)
	}
}

// TestGO02NoAllocation checks that a header costs no memory when the caller's
// buffer has room: one is written for every datagram.
func TestGO02NoAllocation(t *testing.T) {
	buf := make([]byte, 0, MaxLen)
	v4, v6 := ap("203.0.113.7:5555"), ap("[2001:db8::7]:5555")
	allocs := testing.AllocsPerRun(100, func() {
		buf = AppendV1(buf[:0], v4, v4)
		buf = AppendV1(buf[:0], v6, v6)
		buf = AppendV2(buf[:0], Datagram, v4, v4)
		buf = AppendV2(buf[:0], Stream, v6, v6)
		buf = AppendLocal(buf[:0])
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}

// FuzzGO02ParsedBack lets an independent implementation read every header that
// this one writes.
func FuzzGO02ParsedBack(f *testing.F) {
	add := func(src, dst string) {
		s, d := netip.MustParseAddr(src), netip.MustParseAddr(dst)
		f.Add(s.AsSlice(), d.AsSlice(), uint16(5555), uint16(443))
	}
	add("203.0.113.7", "192.0.2.1")
	add("2001:db8::7", "2001:db8::1")
	add("::ffff:203.0.113.7", "::ffff:192.0.2.1")
	add("::ffff:203.0.113.7", "2001:db8::1")
	add("0.0.0.0", "255.255.255.255")
	add("::", "::1")
	f.Fuzz(func(t *testing.T, src, dst []byte, sport, dport uint16) {
		s, okS := netip.AddrFromSlice(src)
		d, okD := netip.AddrFromSlice(dst)
		if !okS || !okD {
			return // not the bytes of an address
		}
		from, to := netip.AddrPortFrom(s, sport), netip.AddrPortFrom(d, dport)
		prefix := []byte("before")
		for name, b := range map[string][]byte{
			"v1":          AppendV1(prefix, from, to),
			"v2":          AppendV2(prefix, Stream, from, to),
			"v2 datagram": AppendV2(prefix, Datagram, from, to),
		} {
			header, kept := bytes.CutPrefix(b, prefix)
			if !kept {
				t.Fatalf("%s: the buffer's own bytes were changed: %q", name, b)
			}
			checkParsed(t, name, header, from, to)
		}
	})
}

func checkParsed(t *testing.T, name string, header []byte, from, to netip.AddrPort) {
	t.Helper()
	const payload = "payload"
	r := bufio.NewReader(bytes.NewReader(append(bytes.Clone(header), payload...)))
	h, err := pires.Read(r)
	if err != nil {
		t.Fatalf("%s: reading back %q: %v", name, header, err)
	}
	rest := make([]byte, len(payload))
	if _, err := r.Read(rest); err != nil || string(rest) != payload {
		t.Errorf("%s: after the header came %q, %v; want %q", name, rest, err, payload)
	}
	if header[0] == '\r' && header[13]&0xf0 == 0 {
		t.Errorf("%s: PP2-04: a PROXY command without a family", name)
	}
	if tlvs, err := h.TLVs(); len(tlvs) > 0 || err != nil {
		t.Errorf("%s: PP2-07: TLVs %v, %v; want none", name, tlvs, err)
	}
	if h.Command.IsLocal() || h.TransportProtocol.IsDatagram() != (name == "v2 datagram") {
		t.Errorf("%s: parsed as command %v, transport %v", name, h.Command, h.TransportProtocol)
	}
	if got := parsedAddr(h.SourceAddr); got != plain(from) {
		t.Errorf("%s: source %v, want %v", name, got, plain(from))
	}
	if got := parsedAddr(h.DestinationAddr); got != plain(to) {
		t.Errorf("%s: destination %v, want %v", name, got, plain(to))
	}
}

func parsedAddr(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return plain(a.AddrPort())
	case *net.UDPAddr:
		return plain(a.AddrPort())
	default:
		return netip.AddrPort{}
	}
}

func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
