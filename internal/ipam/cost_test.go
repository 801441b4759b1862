package ipam

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// crowd is the number of owners the costs are stated for.
const crowd = 8000

func member(i int) Request {
	return Request{
		Owner: model.Key{Namespace: "shop", Name: fmt.Sprintf("s%05d", i)}, Created: noon(),
		Families: []model.Family{model.IPv4}, Ports: tcp(80),
	}
}

// TestCost counts the addresses looked at: a few for each owner, however many
// there are. A search from the start would take 32 million.
func TestCost(t *testing.T) {
	cases := map[string]struct {
		reason string
		prefix string
		edit   func(i int, r *Request)
	}{
		"Exclusive":     {"each gets the next", "10.0.0.0/16", func(int, *Request) {}},
		"ExcludedBlock": {"a block of excluded addresses is one step", "10.255.0.0/15", func(int, *Request) {}},
		"SameKeyPort": {
			"a key that everybody uses for one port", "10.0.0.0/16",
			func(_ int, r *Request) { r.Share.Key = "k" },
		},
		"SameKeyPorts": {
			"and for several", "10.0.0.0/16",
			func(_ int, r *Request) { r.Share.Key, r.Ports = "k", tcp(80, 443) },
		},
		"SameKeyInTurn": {
			"and for ports in turn", "10.0.0.0/16",
			func(i int, r *Request) { r.Share.Key, r.Ports = "k", tcp([]uint16{80, 443}[i%2]) },
		},
		"OneAddress": {
			"all on one address with a port each", "10.0.0.0/16",
			func(i int, r *Request) { r.Share.Key, r.Ports = "k", tcp(uint16(i+1)) },
		},
		"IPv6": {
			"a /64 is not enumerated", "2001:db8::/64",
			func(_ int, r *Request) { r.Families = []model.Family{model.IPv6} },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pools := []Pool{pool(t, "p", tc.prefix)}
			excluded := []netip.Prefix{netip.MustParsePrefix("10.254.0.0/16"), netip.MustParsePrefix("10.255.0.0/20")}
			table := NewTable(pools, excluded)
			all := func(what string, table *Table) {
				t.Helper()
				table.steps = 0
				for i := range crowd {
					r := member(i)
					tc.edit(i, &r)
					if v := table.Assign(r, noon()); v.Reason != AddressAssigned {
						t.Fatalf("%s: %s", what, v.Message)
					}
				}
				if limit := 8 * crowd; table.steps > limit {
					t.Errorf("%s (%s): %d addresses looked at, want at most %d", what, tc.reason, table.steps, limit)
				}
			}
			all("assigning", table)
			all("assigning again", table)
			fresh := NewTable(pools, excluded)
			for _, h := range table.Holdings() {
				fresh.Restore(h)
			}
			all("after a restart", fresh)
			for i := range crowd {
				table.Release(member(crowd-1-i).Owner, noon(), minutes(1))
			}
			all("returning", table)
			for i := range crowd {
				table.Release(member(i*7919%crowd).Owner, noon(), 0)
			}
			all("after all were freed out of order", table)
		})
	}
}

// TestCostOfExhaustion: owners that cannot be served do not search.
func TestCostOfExhaustion(t *testing.T) {
	table := NewTable([]Pool{pool(t, "p", "10.0.0.0/20")}, nil)
	refused := 0
	for i := range crowd {
		if v := table.Assign(member(i), noon()); v.Reason == PoolExhausted {
			refused++
		}
	}
	if want := crowd - (1<<12 - 2); refused != want {
		t.Errorf("%d were refused, want %d", refused, want)
	}
	if limit := 4 * crowd; table.steps > limit {
		t.Errorf("%d addresses looked at, want at most %d", table.steps, limit)
	}
}

func BenchmarkAssign8000(b *testing.B) {
	r, err := ParseRange("10.0.0.0/16")
	if err != nil {
		b.Fatal(err)
	}
	requests := make([]Request, crowd)
	for i := range requests {
		requests[i] = member(i)
	}
	b.ReportAllocs()
	for b.Loop() {
		table := NewTable([]Pool{{Name: "p", AutoAssign: true, Ranges: []Range{r}}}, nil)
		for _, r := range requests {
			if v := table.Assign(r, noon()); len(v.Addresses) != 1 {
				b.Fatal(v.Message)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/crowd, "ns/address")
}
