package proxy

import (
	"container/list"
	"net/netip"
	"time"
)

// affinityEntries bounds the memory of one listener's affinity: about 200 bytes
// an entry. Beyond it the client that has been away longest is forgotten.
const affinityEntries = 100_000

// affinity remembers which member a client address had, for lifetime after its
// last new connection. The zero value remembers nothing. It is guarded by the
// service's lock.
type affinity struct {
	lifetime time.Duration
	byClient map[netip.Addr]*list.Element
	// byAge is sorted by the time of the last new connection, oldest first.
	byAge list.List
}

type attachment struct {
	client netip.Addr
	member netip.AddrPort
	seen   time.Time
}

// find returns the client's member if it is remembered and usable. One that is
// down, drained or removed is not usable; when it comes back, the client has
// been attached to another and stays there.
func (a *affinity) find(client netip.Addr, usable []candidate, now time.Time) *member {
	e := a.byClient[client]
	if e == nil {
		return nil
	}
	at := e.Value.(*attachment)
	if now.Sub(at.seen) >= a.lifetime {
		return nil
	}
	for _, m := range usable {
		if m.address == at.member {
			return m.member
		}
	}
	return nil
}

// remember attaches a client to a member from now on.
func (a *affinity) remember(client netip.Addr, m *member, now time.Time) {
	if a.lifetime <= 0 {
		return
	}
	if e := a.byClient[client]; e != nil {
		at := e.Value.(*attachment)
		at.member, at.seen = m.address, now
		a.byAge.MoveToBack(e)
		return
	}
	if a.byClient == nil {
		a.byClient = map[netip.Addr]*list.Element{}
	}
	if len(a.byClient) >= affinityEntries {
		a.forget(a.byAge.Front())
	}
	a.byClient[client] = a.byAge.PushBack(&attachment{client, m.address, now})
}

// expire forgets every client whose time is over.
func (a *affinity) expire(now time.Time) {
	for e := a.byAge.Front(); e != nil; e = a.byAge.Front() {
		if now.Sub(e.Value.(*attachment).seen) < a.lifetime {
			return
		}
		a.forget(e)
	}
}

func (a *affinity) forget(e *list.Element) {
	delete(a.byClient, e.Value.(*attachment).client)
	a.byAge.Remove(e)
}
