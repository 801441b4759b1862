package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"log/slog"
	"net/netip"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/proxy/proxyproto"
)

// headerRoom is the length of the longest header in front of a datagram.
const headerRoom = proxyproto.LenV2IPv6 + proxyproto.LenUniqueID

// appendHeader appends what a member is told about a TCP connection.
func appendHeader(b []byte, version model.ProxyProtocol, from, to netip.AddrPort, id []byte) []byte {
	switch version {
	case model.ProxyV1:
		return proxyproto.AppendV1(b, from, to)
	case model.ProxyV2:
		return proxyproto.AppendV2ID(b, proxyproto.Stream, from, to, id)
	case model.ProxyNone:
	}
	return b
}

// uniqueID is the id of a connection or flow; all zero: it has none.
type uniqueID [proxyproto.UniqueIDLen]byte

// newID makes an id if the rules ask for one.
func (s *service) newID(rules *snapshot) uniqueID {
	var id uniqueID
	if rules.listener.Pool.UniqueID {
		const half = proxyproto.UniqueIDLen / 2
		binary.BigEndian.PutUint64(id[:half], s.proxy.cfg.Random())
		binary.BigEndian.PutUint64(id[half:], s.proxy.cfg.Random()|1) // never all zero
	}
	return id
}

// bytes returns the id as it goes into a header; nil: it does not.
func (id *uniqueID) bytes() []byte {
	if *id == (uniqueID{}) {
		return nil
	}
	return id[:]
}

// attr is the id in a log line, or nothing.
func (id *uniqueID) attr() slog.Attr {
	if b := id.bytes(); b != nil {
		return slog.String("id", hex.EncodeToString(b))
	}
	return slog.Attr{}
}

// withHeader returns the datagram of n bytes that starts at headerRoom in buf,
// with the flow's header in front.
func (f *flow) withHeader(buf []byte, n int) []byte {
	start, at := headerRoom-proxyproto.LenV2IPv6, f.socket.id.at
	if f.client.Addr().Is4() && at.Addr().Is4() {
		start = headerRoom - proxyproto.LenV2IPv4
	}
	id := f.id.bytes()
	if id != nil {
		start -= proxyproto.LenUniqueID
	}
	proxyproto.AppendV2ID(buf[start:start], proxyproto.Datagram, f.client, at, id)
	return buf[start : headerRoom+n]
}
