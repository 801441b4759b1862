package ipam

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// walk is a random history of one table. Few owners, addresses, ports and keys
// make them meet often.
type walk struct {
	*testing.T
	rnd   *rand.Rand
	now   time.Time
	table *Table
	// twin is restored from table's listings now and then, and must behave
	// the same from there on.
	twin  *Table
	pools [][]Pool
	in    []Pool
	not   []netip.Prefix
}

func TestRandomHistories(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("Seed%d", seed), func(t *testing.T) {
			small := pool(t, "small", "192.0.2.0/29", "2001:db8::/125")
			low := pool(t, "low", "192.0.2.16-192.0.2.20")
			low.Priority = 3
			manual := pool(t, "manual", "192.0.2.32/30")
			manual.AutoAssign = false
			six := pool(t, "six", "2001:db8:1::/126")
			not := []netip.Prefix{netip.MustParsePrefix("192.0.2.2/32"), netip.MustParsePrefix("192.0.2.17/32")}
			w := &walk{
				T: t, rnd: rand.New(rand.NewPCG(seed, 5)), now: noon(), not: not,
				pools: [][]Pool{{small, low, manual, six}, {small, manual}, {low, six, manual}, {small, low}},
			}
			w.in = w.pools[0]
			w.table = NewTable(w.in, not)
			w.twin = w.restarted()
			for range 300 {
				w.step()
				w.compare()
			}
		})
	}
}

func (w *walk) step() {
	w.now = w.now.Add(time.Duration(w.rnd.IntN(90)) * time.Second)
	switch n := w.rnd.IntN(100); {
	case n < 5:
		w.in = w.pools[w.rnd.IntN(len(w.pools))]
		w.table.SetPools(w.in)
		w.twin.SetPools(w.in)
	case n < 15:
		w.twin = w.restarted()
	case n < 20:
		w.same("Expire", w.table.Expire(w.now), w.twin.Expire(w.now))
	case n < 40:
		who, delay := w.owner(), time.Duration(w.rnd.IntN(4))*5*time.Minute
		w.same("Release", w.table.Release(who, w.now, delay), w.twin.Release(who, w.now, delay))
	default:
		w.assign(w.request())
	}
}

// restarted returns a table that knows only what the listings of the other
// tell, put in in any order.
func (w *walk) restarted() *Table {
	w.table.Expire(w.now)
	fresh := NewTable(w.in, w.not)
	holdings, reservations := w.table.Holdings(), w.table.Reservations()
	w.rnd.Shuffle(len(holdings), func(i, j int) { holdings[i], holdings[j] = holdings[j], holdings[i] })
	w.rnd.Shuffle(len(reservations), func(i, j int) { reservations[i], reservations[j] = reservations[j], reservations[i] })
	early := w.rnd.IntN(2) == 0
	for _, r := range reservations {
		if early {
			fresh.Reserve(r)
		}
	}
	for _, h := range holdings {
		fresh.Restore(h)
	}
	for _, r := range reservations {
		fresh.Reserve(r)
	}
	return fresh
}

func (w *walk) owner() model.Key {
	return model.Key{Namespace: []string{"shop", "web"}[w.rnd.IntN(2)], Name: string(rune('a' + w.rnd.IntN(8)))}
}

func (w *walk) request() Request {
	pick := func(percent int) bool { return w.rnd.IntN(100) < percent }
	r := Request{Owner: w.owner(), Created: noon().Add(time.Duration(w.rnd.IntN(400)) * time.Minute), Families: []model.Family{model.IPv4}}
	if pick(40) {
		r.Families = [][]model.Family{{model.IPv6}, {model.IPv4, model.IPv6}, {model.IPv6, model.IPv4}}[w.rnd.IntN(3)]
		r.RequireAll = pick(30)
	}
	if pick(25) {
		r.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(w.rnd.IntN(40))})}
	}
	if pick(10) {
		r.Pool = []string{"small", "low", "manual", "six"}[w.rnd.IntN(4)]
	}
	if pick(15) {
		r.Pools = [][]string{{"small"}, {"low", "six"}, {}}[w.rnd.IntN(3)]
	}
	for _, n := range []uint16{80, 81, 443} {
		if pick(45) {
			r.Ports = append(r.Ports, model.Port{Protocol: model.TCP, Number: n})
		}
	}
	if pick(60) {
		r.Share = Share{Key: []string{"k", "l"}[w.rnd.IntN(2)]}
		if pick(50) {
			r.Share.Namespace = r.Owner.Namespace
		}
		if pick(20) {
			r.Share.Backend = "app=x"
		}
	}
	r.Delay = time.Duration(w.rnd.IntN(3)) * 4 * time.Minute
	return r
}

func (w *walk) assign(r Request) {
	w.Helper()
	w.table.Expire(w.now)
	w.twin.Expire(w.now)
	had, holds := w.table.Holding(r.Owner)
	others := slices.DeleteFunc(w.table.Holdings(), func(h Holding) bool { return h.Owner == r.Owner })
	lowest, simple := w.lowestFree(r)

	v := w.table.Assign(r, w.now)
	w.same("Assign "+r.Owner.String(), v, w.twin.Assign(r, w.now))

	if holds && len(v.Addresses) == 0 {
		w.Fatalf("%s lost %v: %s", r.Owner, had.Addresses, v.Message)
	}
	if simple && !holds && lowest.IsValid() && !slices.Equal(v.Addresses, []netip.Addr{lowest}) {
		w.Fatalf("%s got %v, want the lowest free address %s", r.Owner, v.Addresses, lowest)
	}
	after := slices.DeleteFunc(w.table.Holdings(), func(h Holding) bool { return h.Owner == r.Owner })
	w.same("holdings of others than "+r.Owner.String(), others, after)
	again := w.table.Assign(r, w.now)
	if again.Changed || !slices.Equal(v.Addresses, again.Addresses) || again.Reason != v.Reason {
		w.Fatalf("asking again changes the verdict:\nfirst %+v\nthen %+v", v, again)
	}
	w.twin.Assign(r, w.now)
}

// lowestFree finds by trying each address what a plain request must get.
func (w *walk) lowestFree(r Request) (netip.Addr, bool) {
	simple := len(r.Families) == 1 && len(r.Addresses) == 0 && r.Pool == "" && r.Share.Key == ""
	used := map[netip.Addr]bool{}
	for _, h := range w.table.Holdings() {
		for _, a := range h.Addresses {
			used[a] = true
		}
	}
	for _, x := range w.table.Reservations() {
		used[x.Address] = true
		simple = simple && x.For != r.Owner
	}
	inOrder := slices.Clone(w.in)
	slices.SortFunc(inOrder, func(a, b Pool) int {
		if (a.Name == "low") != (b.Name == "low") { // the only one with a priority
			return map[bool]int{true: -1, false: 1}[a.Name == "low"]
		}
		return cmpText(a.Name, b.Name)
	})
	for _, p := range inOrder {
		if !p.AutoAssign || r.Pools != nil && !slices.Contains(r.Pools, p.Name) {
			continue
		}
		for _, x := range p.Ranges {
			for a := x.First; x.Contains(a); a = a.Next() {
				edge := x.Subnet && (a == x.First || a == x.Last && a.Is4())
				out := slices.ContainsFunc(w.not, func(n netip.Prefix) bool { return n.Contains(a) })
				if model.FamilyOf(a) == r.Families[0] && !edge && !out && !used[a] {
					return a, simple
				}
			}
		}
	}
	return netip.Addr{}, simple
}

func cmpText(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// compare checks what must hold after every step.
func (w *walk) compare() {
	w.Helper()
	w.same("holdings", w.table.Holdings(), w.twin.Holdings())
	w.same("reservations", w.table.Reservations(), w.twin.Reservations())
	at := map[netip.Addr][]Holding{}
	for _, h := range w.table.Holdings() {
		for _, a := range h.Addresses {
			for _, o := range at[a] {
				w.mayShare(a, h, o)
			}
			at[a] = append(at[a], h)
		}
	}
	if c := w.table.Conflicts(); len(c) != 0 {
		w.Fatalf("conflicts: %+v", c)
	}
	for _, r := range w.table.Reservations() {
		if slices.Contains(w.table.Holders(r.Address), r.For) {
			w.Fatalf("%s is reserved for its holder %s", r.Address, r.For)
		}
	}
}

func (w *walk) mayShare(a netip.Addr, x, y Holding) {
	w.Helper()
	bounded := x.Share.Namespace != "" || y.Share.Namespace != ""
	switch {
	case x.Share.Key == "", x.Share.Key != y.Share.Key, x.Share.Backend != y.Share.Backend,
		bounded && x.Owner.Namespace != y.Owner.Namespace,
		slices.ContainsFunc(x.Ports, func(p model.Port) bool { return slices.Contains(y.Ports, p) }):
		w.Fatalf("%s and %s both hold %s:\n%+v\n%+v", x.Owner, y.Owner, a, x, y)
	}
}

func (w *walk) same(what string, a, b any) {
	w.Helper()
	if reflect.DeepEqual(a, b) {
		return // cmp takes its time
	}
	if diff := cmp.Diff(a, b, values()); diff != "" {
		w.Fatalf("%s after a restart (-went on +restarted):\n%s", what, diff)
	}
}
