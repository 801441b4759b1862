package proxy

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"net/netip"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// picker chooses a member for a client. from is never empty, holds only usable
// members, and is sorted by address. Calls are serialised by the service.
type picker interface {
	pick(from []candidate, client netip.AddrPort) *member
}

// newPicker returns the picker of an algorithm; the empty one is round robin.
// An unknown one gets round robin and false.
func newPicker(a model.Algorithm) (picker, bool) {
	switch a {
	case model.RoundRobin, "":
		return roundRobin{}, true
	case model.LeastConnections:
		return &leastConnections{}, true
	case model.SourceIP:
		return sourceHash{}, true
	case model.SourceIPPort:
		return sourceHash{withPort: true}, true
	default:
		return roundRobin{}, false
	}
}

// roundRobin is smooth and weighted: in every window of as many picks as the
// weights' sum each member gets its weight, and they alternate as evenly as
// that allows. The position is the members' own, so it survives updates.
type roundRobin struct{}

func (roundRobin) pick(from []candidate, _ netip.AddrPort) *member {
	var best *member
	total := 0
	for _, m := range from {
		m.position += m.weight
		total += m.weight
		if best == nil || m.position > best.position {
			best = m.member
		}
	}
	best.position -= total
	return best
}

// leastConnections takes the member with the fewest links for its weight, those
// that are being opened included. Among equals it goes round.
type leastConnections struct{ turn int }

func (l *leastConnections) pick(from []candidate, _ netip.AddrPort) *member {
	l.turn++
	var best candidate
	var load int
	for i := range from {
		m := from[(i+l.turn)%len(from)]
		n := m.links.len() + 1
		// n/m.weight < load/best.weight, without fractions.
		if best.member == nil || n*best.weight < load*m.weight {
			best, load = m, n
		}
	}
	return best.member
}

// sourceHash is weighted rendezvous hashing: every client ranks the members by
// a hash of both, so a member that goes moves only its own clients, and every
// proxy agrees without talking. The result depends on nothing but the client's
// address (and port) and the members' addresses and weights; the golden vectors
// in the tests must never change.
type sourceHash struct{ withPort bool }

func (h sourceHash) pick(from []candidate, client netip.AddrPort) *member {
	var best *member
	var highest float64
	for _, m := range from {
		score := h.score(client, m)
		if best == nil || score > highest {
			best, highest = m.member, score
		}
	}
	return best
}

func (h sourceHash) score(client netip.AddrPort, m candidate) float64 {
	const keyLen = 36 // two addresses of 16 bytes, two ports
	var key [keyLen]byte
	c, a := client.Addr().As16(), m.address.Addr().As16()
	copy(key[:16], c[:])
	copy(key[16:32], a[:])
	binary.BigEndian.PutUint16(key[32:], m.address.Port())
	if h.withPort {
		binary.BigEndian.PutUint16(key[34:], client.Port())
	}
	sum := fnv.New64a()
	sum.Write(key[:])
	return float64(m.weight) / -math.Log(unit(sum.Sum64()))
}

// unit spreads a hash evenly over the open interval (0, 1). FNV alone changes
// its upper bits too little between keys that differ in the last bytes only;
// the multiplications are the finalizer of MurmurHash3.
func unit(h uint64) float64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	const bits = 53
	return (float64(h>>(64-bits)) + 0.5) / (1 << bits)
}
