package ipam

import (
	"net/netip"
	"slices"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// groupKey names the addresses of a family that are shared on the same terms.
type groupKey struct {
	Share
	family model.Family
}

// group is a set of shared addresses.
type group struct {
	holders map[netip.Addr]int
	addrs   []netip.Addr // sorted
	// from: at no address of the group below it is the port free. It may be
	// too low, never too high, and spares looking through full addresses.
	from map[model.Port]netip.Addr
}

func newGroup() *group {
	return &group{holders: map[netip.Addr]int{}, from: map[model.Port]netip.Addr{}}
}

func (g *group) join(a netip.Addr) {
	g.holders[a]++
	i, ok := slices.BinarySearchFunc(g.addrs, a, netip.Addr.Compare)
	if ok {
		return
	}
	g.addrs = slices.Insert(g.addrs, i, a)
	for p, from := range g.from {
		if a.Less(from) {
			g.from[p] = a
		}
	}
}

func (g *group) leave(a netip.Addr) {
	if g.holders[a]--; g.holders[a] > 0 {
		return
	}
	delete(g.holders, a)
	if i, ok := slices.BinarySearchFunc(g.addrs, a, netip.Addr.Compare); ok {
		g.addrs = slices.Delete(g.addrs, i, i+1)
	}
}

// freed notes that ports may be free at an address again.
func (g *group) freed(a netip.Addr, ports []model.Port) {
	for _, p := range ports {
		if from, ok := g.from[p]; ok && a.Less(from) {
			g.from[p] = a
		}
	}
}

// search returns the lowest address at which none of the ports is taken and
// that fits; both are asked of addresses of the group only.
func (g *group) search(ports []model.Port, taken func(netip.Addr, model.Port) bool, fits func(netip.Addr) bool) (netip.Addr, bool) {
	var start netip.Addr
	for _, p := range ports {
		if start.Less(g.from[p]) {
			start = g.from[p]
		}
	}
	var run []model.Port // taken at every address from their mark up to here
	for _, p := range ports {
		if g.from[p] == start {
			run = append(run, p)
		}
	}
	i, _ := slices.BinarySearchFunc(g.addrs, start, netip.Addr.Compare)
	for _, a := range g.addrs[i:] {
		run = slices.DeleteFunc(run, func(p model.Port) bool { return !taken(a, p) })
		for _, p := range run {
			g.from[p] = a.Next()
		}
		if !slices.ContainsFunc(ports, func(p model.Port) bool { return taken(a, p) }) && fits(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// groupsOf returns the groups whose addresses an owner may join: those bound
// as it is itself, unbound ones, and those bound to its namespace.
func groupsOf(t term, f model.Family) []groupKey {
	if t.Key == "" {
		return nil
	}
	var keys []groupKey
	for _, namespace := range []string{t.Namespace, "", t.of} {
		k := groupKey{Share{Key: t.Key, Namespace: namespace, Backend: t.Backend}, f}
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}
