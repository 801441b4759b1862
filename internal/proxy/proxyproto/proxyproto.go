// Package proxyproto writes PROXY protocol headers, versions 1 and 2 (the
// HAProxy project's proxy-protocol.txt, "PP" below). It appends bytes for the
// addresses it is given and does nothing else: it never parses, writes to a
// connection, or says anything it was not told (no TLV but an id: who relays
// bytes cannot vouch for names or certificates inside them).
package proxyproto

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// MaxLen is the greatest length of a header of this package, in bytes. Version 1
// is shorter than the 107 that every receiver must take (PP 2.1), and version
// 2 with an id of UniqueIDLen is as well; some receivers take no more than that.
const MaxLen = 107

// The lengths of a version 2 header without TLVs, in bytes.
const (
	LenV2IPv4  = 28
	LenV2IPv6  = 52
	LenV2Local = 16
)

const (
	// UniqueIDLen is the length of the ids that this project makes, in bytes.
	// The field takes up to 128 (PP 2.2.5).
	UniqueIDLen = 16
	// LenUniqueID is what such an id adds to a version 2 header, in bytes.
	LenUniqueID = tlvHead + UniqueIDLen

	typeUniqueID = 0x05
	tlvHead      = 3
)

// Transport is what carries the relayed bytes, as the low half of byte 14.
type Transport byte

// The transports (PP 2.2).
const (
	Stream   Transport = 0x1
	Datagram Transport = 0x2
)

const (
	signature  = "\r\n\r\n\x00\r\nQUIT\n"
	local      = 0x20
	proxied    = 0x21
	familyIPv4 = 0x10
	familyIPv6 = 0x20
)

// AppendV1 appends the version 1 line for a TCP connection from src to dst and
// returns the extended buffer. IPv4-mapped addresses count as IPv4; if only
// one address is IPv4, the line is TCP6 with that one mapped; zones are left
// out. Both addresses must be valid: version 1 has no honest line for a relayed
// connection without them, nor for UDP.
func AppendV1(b []byte, src, dst netip.AddrPort) []byte {
	s, d, v4 := sameFamily(src.Addr(), dst.Addr())
	if v4 {
		b = append(b, "PROXY TCP4 "...)
	} else {
		b = append(b, "PROXY TCP6 "...)
	}
	b = s.AppendTo(b)
	b = append(b, ' ')
	b = d.AppendTo(b)
	b = append(b, ' ')
	b = strconv.AppendUint(b, uint64(src.Port()), 10)
	b = append(b, ' ')
	b = strconv.AppendUint(b, uint64(dst.Port()), 10)
	return append(b, "\r\n"...)
}

// AppendV2 appends the version 2 PROXY header for a connection or datagram from
// src to dst and returns the extended buffer. Families are treated as in
// AppendV1. Both addresses must be valid.
func AppendV2(b []byte, transport Transport, src, dst netip.AddrPort) []byte {
	return AppendV2ID(b, transport, src, dst, nil)
}

// AppendV2ID is AppendV2 with an id of the connection, of UniqueIDLen bytes, as
// the TLV UNIQUE_ID (PP 2.2.5). No id, no TLV.
func AppendV2ID(b []byte, transport Transport, src, dst netip.AddrPort, id []byte) []byte {
	s, d, v4 := sameFamily(src.Addr(), dst.Addr())
	b = append(b, signature...)
	tlvs := byte(0)
	if len(id) > 0 {
		tlvs = byte(tlvHead + len(id))
	}
	if v4 {
		b = append(b, proxied, familyIPv4|byte(transport), 0, LenV2IPv4-LenV2Local+tlvs)
		s4, d4 := s.As4(), d.As4()
		b = append(b, s4[:]...)
		b = append(b, d4[:]...)
	} else {
		b = append(b, proxied, familyIPv6|byte(transport), 0, LenV2IPv6-LenV2Local+tlvs)
		s16, d16 := s.As16(), d.As16()
		b = append(b, s16[:]...)
		b = append(b, d16[:]...)
	}
	b = binary.BigEndian.AppendUint16(b, src.Port())
	b = binary.BigEndian.AppendUint16(b, dst.Port())
	if len(id) == 0 {
		return b
	}
	b = append(b, typeUniqueID, 0, byte(len(id)))
	return append(b, id...)
}

// AppendLocal appends the version 2 LOCAL header, which says that the sender
// speaks for itself (a health check), and returns the extended buffer.
func AppendLocal(b []byte) []byte {
	b = append(b, signature...)
	return append(b, local, 0, 0, 0)
}

// sameFamily returns both addresses in one family, without zones.
func sameFamily(s, d netip.Addr) (netip.Addr, netip.Addr, bool) {
	s, d = s.Unmap().WithZone(""), d.Unmap().WithZone("")
	if s.Is4() && d.Is4() {
		return s, d, true
	}
	return netip.AddrFrom16(s.As16()), netip.AddrFrom16(d.As16()), false
}
