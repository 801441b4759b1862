//go:build linux

package demo

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	goproxyproto "github.com/pires/go-proxyproto"

	"github.com/fairlead-lb/fairlead/internal/proxy/proxyproto"
)

// foreign is a header written by another implementation.
func foreign(t *testing.T, version byte, src, dst string) string {
	t.Helper()
	h := goproxyproto.HeaderProxyFromAddrs(version,
		net.TCPAddrFromAddrPort(netip.MustParseAddrPort(src)), net.TCPAddrFromAddrPort(netip.MustParseAddrPort(dst)))
	text, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReadHeader(t *testing.T) {
	src4, dst4 := netip.MustParseAddrPort("127.9.9.9:1234"), netip.MustParseAddrPort("127.77.0.1:8080")
	src6, dst6 := netip.MustParseAddrPort("[2001:db8::9]:1234"), netip.MustParseAddrPort("[2001:db8::1]:8080")
	cases := map[string]struct{ reason, header, want string }{
		"V1IPv4":    {"the text form", string(proxyproto.AppendV1(nil, src4, dst4)), "127.9.9.9:1234"},
		"V1IPv6":    {"the text form has addresses without brackets", string(proxyproto.AppendV1(nil, src6, dst6)), "[2001:db8::9]:1234"},
		"V2IPv4":    {"the binary form", string(proxyproto.AppendV2(nil, proxyproto.Stream, src4, dst4)), "127.9.9.9:1234"},
		"V2IPv6":    {"the binary form", string(proxyproto.AppendV2(nil, proxyproto.Stream, src6, dst6)), "[2001:db8::9]:1234"},
		"OtherV1":   {"another writer means the same", foreign(t, 1, "192.0.2.7:99", "192.0.2.1:80"), "192.0.2.7:99"},
		"OtherV2":   {"another writer means the same", foreign(t, 2, "192.0.2.7:99", "192.0.2.1:80"), "192.0.2.7:99"},
		"Extended":  {"what follows the addresses is passed over (TLVs)", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0f\x7f\x09\x09\x09\x7f\x4d\x00\x01\x04\xd2\x1f\x90\x04\x00\x00", "127.9.9.9:1234"},
		"Local":     {"a sender that speaks for itself names no client", string(proxyproto.AppendLocal(nil)), "invalid AddrPort"},
		"V1Unknown": {"a sender may not know the client", "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "invalid AddrPort"},
		"Unix":      {"a family without address and port names no client we could show", "\r\n\r\n\x00\r\nQUIT\n\x21\x31\x00\x00", "invalid AddrPort"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := bufio.NewReader(strings.NewReader(tc.header + "GET /"))
			client, err := readHeader(r)
			if err != nil || client.String() != tc.want {
				t.Errorf("read %s, %v; want %s: %s", client, err, tc.want, tc.reason)
			}
			if rest, err := io.ReadAll(r); err != nil || string(rest) != "GET /" {
				t.Errorf("left %q, %v of what follows the header", rest, err)
			}
		})
	}
}

func TestReadHeaderRefuses(t *testing.T) {
	cases := map[string]struct{ reason, text string }{
		"Request":   {"a request without a header", "GET / HTTP/1.1\r\n"},
		"Post":      {"a request may begin with the header's first letter", "POST / HTTP/1.1\r\n"},
		"Endless":   {"a line without an end", "PROXY TCP4 " + strings.Repeat("1", 4096)},
		"NoPort":    {"words are missing", "PROXY TCP4 127.0.0.1 127.0.0.2 80\r\n"},
		"NoAddress": {"a word that is no address", "PROXY TCP4 here 127.0.0.2 80 80\r\n"},
		"Signature": {"another binary protocol", "\r\n\r\n\x00\r\nQUIX\n\x21\x11\x00\x00"},
		"Version":   {"a version to come", "\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x00"},
		"Short":     {"fewer bytes than its addresses take", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x04\x7f\x09\x09\x09"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			client, err := readHeader(bufio.NewReader(strings.NewReader(tc.text)))
			if !errors.Is(err, errNoHeader) || client.IsValid() {
				t.Errorf("read %s, %v; want a refusal: %s", client, err, tc.reason)
			}
		})
	}
	whole := proxyproto.AppendV2(nil, proxyproto.Stream, netip.MustParseAddrPort("127.9.9.9:1"), netip.MustParseAddrPort("127.0.0.1:2"))
	for n := range whole {
		if client, err := readHeader(bufio.NewReader(bytes.NewReader(whole[:n]))); err == nil || client.IsValid() {
			t.Errorf("of a header cut after %d bytes read %s, %v", n, client, err)
		}
	}
}
