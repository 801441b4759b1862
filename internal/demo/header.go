//go:build linux

package demo

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// What a PROXY header looks like; PP is the HAProxy project's proxy-protocol.txt.
const (
	signatureV2 = "\r\n\r\n\x00\r\nQUIT\n" // PP 2.2
	fixedV2     = 16                       // bytes before the addresses
	longestV1   = 107                      // PP 2.1, CRLF included
)

// errNoHeader says that a connection began with something else.
var errNoHeader = errors.New("no PROXY header")

// readHeader reads the header that a connection has to begin with, and returns
// the client that it names. The result is not valid when the header names none:
// LOCAL, UNKNOWN, or a family other than IPv4 and IPv6.
func readHeader(r *bufio.Reader) (netip.AddrPort, error) {
	first, err := r.Peek(1)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("reading PROXY header: %w", err)
	}
	switch first[0] {
	case 'P':
		return readV1(r)
	case signatureV2[0]:
		return readV2(r)
	}
	return netip.AddrPort{}, errNoHeader
}

// readV1 reads "PROXY TCP4 source destination sourceport destinationport\r\n" (PP 2.1).
func readV1(r *bufio.Reader) (netip.AddrPort, error) {
	line := make([]byte, 0, longestV1)
	for !bytes.HasSuffix(line, []byte("\r\n")) {
		b, err := r.ReadByte()
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("reading PROXY header: %w", err)
		}
		if line = append(line, b); len(line) > longestV1 {
			return netip.AddrPort{}, fmt.Errorf("%w: its first line is longer than %d bytes", errNoHeader, longestV1)
		}
	}
	words := strings.Split(strings.TrimSuffix(string(line), "\r\n"), " ")
	switch {
	case words[0] != "PROXY" || len(words) < 2:
		return netip.AddrPort{}, errNoHeader
	case words[1] == "UNKNOWN":
		return netip.AddrPort{}, nil
	case words[1] != "TCP4" && words[1] != "TCP6" || len(words) != 6:
		return netip.AddrPort{}, fmt.Errorf("%w: %q", errNoHeader, line)
	case words[1] == "TCP6":
		words[2] = "[" + words[2] + "]"
	}
	client, err := netip.ParseAddrPort(words[2] + ":" + words[4])
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: %w", errNoHeader, err)
	}
	return client, nil
}

// readV2 reads a binary header and passes over what follows its addresses (PP 2.2).
func readV2(r *bufio.Reader) (netip.AddrPort, error) {
	var fixed [fixedV2]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return netip.AddrPort{}, fmt.Errorf("reading PROXY header: %w", err)
	}
	if string(fixed[:len(signatureV2)]) != signatureV2 || fixed[12]>>4 != 2 {
		return netip.AddrPort{}, errNoHeader
	}
	rest := make([]byte, binary.BigEndian.Uint16(fixed[14:]))
	if _, err := io.ReadFull(r, rest); err != nil {
		return netip.AddrPort{}, fmt.Errorf("reading PROXY header: %w", err)
	}
	const proxied = 1 // the command that is not LOCAL
	family := fixed[13] >> 4
	switch {
	case fixed[12]&0xF != proxied:
		return netip.AddrPort{}, nil
	case family == 1 && len(rest) >= 12:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(rest)), binary.BigEndian.Uint16(rest[8:])), nil
	case family == 2 && len(rest) >= 36:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(rest)), binary.BigEndian.Uint16(rest[32:])), nil
	case family == 1 || family == 2:
		return netip.AddrPort{}, fmt.Errorf("%w: %d bytes are too few for its addresses", errNoHeader, len(rest))
	}
	return netip.AddrPort{}, nil
}
