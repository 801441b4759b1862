package ipam

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fairlead-lb/fairlead/internal/model"
)

func values() cmp.Options {
	return cmp.Options{cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmpopts.EquateEmpty()}
}

// given assigns and fails unless the owner gets exactly these addresses.
func given(t *testing.T, table *Table, now time.Time, r Request, want ...string) Verdict {
	t.Helper()
	v := table.Assign(r, now)
	if diff := cmp.Diff(addrs(want...), v.Addresses, values()); diff != "" {
		t.Fatalf("addresses of %s (-want +got):\n%s%s", r.Owner, diff, v.Message)
	}
	return v
}

func TestReleaseReservesForTheFormerOwner(t *testing.T) {
	table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
	now := noon()
	given(t, table, now, ask("shop/web"), "127.77.0.1")
	made := table.Release(owner("shop/web"), now, minutes(10))
	want := []Reservation{{netip.MustParseAddr("127.77.0.1"), owner("shop/web"), now, now.Add(minutes(10))}}
	if diff := cmp.Diff(want, made, values()); diff != "" {
		t.Fatalf("reservations (-want +got):\n%s", diff)
	}
	late := created(now.Add(minutes(1)))
	given(t, table, now.Add(minutes(1)), ask("shop/other", late), "127.77.0.2")
	v := given(t, table, now.Add(minutes(2)), ask("shop/web", late), "127.77.0.1")
	if diff := cmp.Diff(want, v.Ended, values()); diff != "" {
		t.Errorf("ended reservations (-want +got):\n%s", diff)
	}
	if left := table.Reservations(); len(left) != 0 {
		t.Errorf("reservations left: %v", left)
	}
}

func TestReleaseWithoutDelayFreesAtOnce(t *testing.T) {
	table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
	given(t, table, noon(), ask("shop/web"), "127.77.0.1")
	if made := table.Release(owner("shop/web"), noon(), 0); made != nil {
		t.Errorf("reservations = %v, want none", made)
	}
	if made := table.Release(owner("shop/web"), noon(), minutes(1)); made != nil {
		t.Errorf("releasing what is not held made reservations: %v", made)
	}
	given(t, table, noon(), ask("shop/late"), "127.77.0.1")
}

func TestReservationEnds(t *testing.T) {
	table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
	given(t, table, noon(), ask("shop/a"), "127.77.0.1")
	given(t, table, noon(), ask("shop/b"), "127.77.0.2")
	b := table.Release(owner("shop/b"), noon(), minutes(5))
	a := table.Release(owner("shop/a"), noon(), minutes(10))
	if at, ok := table.NextExpiry(); !ok || !at.Equal(noon().Add(minutes(5))) {
		t.Errorf("NextExpiry = %v, %v, want 12:05", at, ok)
	}
	if ended := table.Expire(noon().Add(minutes(5) - 1)); len(ended) != 0 {
		t.Errorf("ended before Until: %v", ended)
	}
	if diff := cmp.Diff(b, table.Expire(noon().Add(minutes(5))), values()); diff != "" {
		t.Errorf("ended at Until (-want +got):\n%s", diff)
	}
	given(t, table, noon().Add(minutes(10)), ask("shop/late", created(noon().Add(minutes(10)))), "127.77.0.1")
	if diff := cmp.Diff(a, table.Expire(noon().Add(minutes(10))), values()); diff != "" {
		t.Errorf("ended by Assign, told by Expire (-want +got):\n%s", diff)
	}
	if at, ok := table.NextExpiry(); ok {
		t.Errorf("NextExpiry = %v without reservations", at)
	}
}

func TestReservationIsReplaced(t *testing.T) {
	table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
	r := Reservation{netip.MustParseAddr("127.77.0.1"), owner("shop/a"), noon(), noon().Add(minutes(5))}
	table.Reserve(r)
	r.Until = noon().Add(minutes(20))
	table.Reserve(r)
	if ended := table.Expire(noon().Add(minutes(6))); len(ended) != 0 {
		t.Errorf("the replaced reservation ended: %v", ended)
	}
	if diff := cmp.Diff([]Reservation{r}, table.Reservations(), values()); diff != "" {
		t.Errorf("reservations (-want +got):\n%s", diff)
	}
}

func TestMoveReservesTheOldAddress(t *testing.T) {
	table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
	given(t, table, noon(), ask("shop/a"), "127.77.0.1")
	v := given(t, table, noon(), ask("shop/a", at("127.77.0.9"), delay(minutes(3))), "127.77.0.9")
	want := []Reservation{{netip.MustParseAddr("127.77.0.1"), owner("shop/a"), noon(), noon().Add(minutes(3))}}
	if diff := cmp.Diff(want, v.Reserved, values()); diff != "" {
		t.Errorf("reserved (-want +got):\n%s", diff)
	}
	given(t, table, noon(), ask("shop/b"), "127.77.0.2")
	given(t, table, noon(), ask("shop/a", at("127.77.0.1")), "127.77.0.1")
}

func TestLowestFreeAfterExpiry(t *testing.T) {
	table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
	for _, name := range []string{"a", "b", "c", "d"} {
		table.Assign(ask("shop/"+name), noon())
	}
	table.Release(owner("shop/c"), noon(), 0)
	table.Release(owner("shop/b"), noon(), 0)
	given(t, table, noon(), ask("shop/e"), "127.77.0.2")
	given(t, table, noon(), ask("shop/f"), "127.77.0.3")
	given(t, table, noon(), ask("shop/g"), "127.77.0.5")
}

func TestEditIntoConflictAndBack(t *testing.T) {
	table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
	given(t, table, noon(), ask("shop/a", shared("k")), "127.77.0.1")
	before := table.Assign(ask("shop/b", shared("k"), ports(443)), noon())
	given(t, table, noon(), ask("shop/b", shared("k")), "127.77.0.1")
	after := table.Assign(ask("shop/b", shared("k"), ports(443)), noon())
	before.Changed = false
	if diff := cmp.Diff(before, after, values()); diff != "" {
		t.Errorf("editing back does not restore (-want +got):\n%s", diff)
	}
	h, _ := table.Holding(owner("shop/a"))
	if diff := cmp.Diff(tcp(80), h.Ports); diff != "" {
		t.Errorf("the other owner was disturbed (-want +got):\n%s", diff)
	}
}

func TestRefusedPortIsGrantedOnceFree(t *testing.T) {
	table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
	given(t, table, noon(), ask("shop/a", shared("k")), "127.77.0.1")
	given(t, table, noon(), ask("shop/b", shared("k"), ports(443)), "127.77.0.1")
	both := ask("shop/b", shared("k"), ports(80, 443))
	if v := table.Assign(both, noon()); len(v.RefusedPorts) != 1 {
		t.Fatalf("refused ports = %v, want TCP/80", v.RefusedPorts)
	}
	table.Release(owner("shop/a"), noon(), 0)
	if v := table.Assign(both, noon()); len(v.RefusedPorts) != 0 || v.Reason != AddressAssigned {
		t.Errorf("the freed port is refused still: %+v", v)
	}
}

func TestSharersReturnTogether(t *testing.T) {
	table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
	a, b := ask("shop/a", shared("k")), ask("shop/b", shared("k"), ports(443))
	given(t, table, noon(), a, "127.77.0.1")
	given(t, table, noon(), b, "127.77.0.1")
	table.Release(a.Owner, noon(), minutes(5))
	table.Release(b.Owner, noon(), minutes(5))
	given(t, table, noon(), ask("shop/c", shared("k"), ports(8080)), "127.77.0.2")
	given(t, table, noon(), b, "127.77.0.1")
	given(t, table, noon(), ask("shop/e", shared("k"), ports(8081)), "127.77.0.2")
	if v := table.Assign(ask("shop/d", shared("k"), ports(8080), at("127.77.0.1")), noon()); v.Reason != AddressHeld {
		t.Errorf("the return of one ended the other's reservation: %s", v.Message)
	}
	given(t, table, noon(), a, "127.77.0.1")
}

func TestReturnsToTheAddressHeldLast(t *testing.T) {
	table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
	for i, text := range []string{"127.77.0.7", "127.77.0.5", "127.77.0.9"} {
		since := noon().Add(-minutes([]int{9, 3, 6}[i]))
		table.Reserve(Reservation{netip.MustParseAddr(text), owner("shop/a"), since, since.Add(time.Hour)})
	}
	given(t, table, noon(), ask("shop/a"), "127.77.0.5")
}

func TestRestoredConflict(t *testing.T) {
	young := Holding{Owner: owner("shop/a"), Created: noon(), Addresses: addrs("127.77.0.1"), Ports: tcp(80, 81)}
	old := Holding{Owner: owner("shop/b"), Created: noon().Add(-minutes(1)), Addresses: addrs("127.77.0.1"), Ports: tcp(80, 82)}
	for name, order := range map[string][]Holding{"YoungFirst": {young, old}, "OldFirst": {old, young}} {
		t.Run(name, func(t *testing.T) {
			table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
			for _, h := range order {
				table.Restore(h)
			}
			want := []Conflict{{
				netip.MustParseAddr("127.77.0.1"), owner("shop/b"), owner("shop/a"),
				"127.77.0.1 TCP/80 is in use by shop/b; change the port or ask for another address",
			}}
			if diff := cmp.Diff(want, table.Conflicts(), values()); diff != "" {
				t.Errorf("conflicts (-want +got):\n%s", diff)
			}
			for _, h := range order { // who is asked first does not matter
				given(t, table, noon(), ask(h.Owner.String(), created(h.Created), func(r *Request) { r.Ports = h.Ports }), "127.77.0.1")
			}
			got := map[string][]model.Port{}
			for _, h := range table.Holdings() {
				got[h.Owner.String()] = h.Ports
			}
			if diff := cmp.Diff(map[string][]model.Port{"shop/a": tcp(81), "shop/b": tcp(80, 82)}, got); diff != "" {
				t.Errorf("granted ports (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRestoreReplacesAndForgetsEmpty(t *testing.T) {
	table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
	h := Holding{Owner: owner("shop/a"), Addresses: addrs("::ffff:127.77.0.1", "127.77.0.1"), Ports: tcp(81, 80, 81)}
	table.Restore(h)
	want := Holding{Owner: owner("shop/a"), Addresses: addrs("127.77.0.1"), Ports: tcp(80, 81)}
	if got, _ := table.Holding(h.Owner); !cmp.Equal(want, got, values()) {
		t.Errorf("holding = %+v, want %+v", got, want)
	}
	h.Addresses = nil
	table.Restore(h)
	if got := table.Holdings(); len(got) != 0 {
		t.Errorf("holdings = %v, want none", got)
	}
	given(t, table, noon(), ask("shop/b"), "127.77.0.1")
}

func TestPoolsChangeUnderHolders(t *testing.T) {
	local := pool(t, "local", "127.77.0.0/16")
	table := NewTable([]Pool{local}, nil)
	given(t, table, noon(), ask("shop/a"), "127.77.0.1")
	given(t, table, noon(), ask("shop/b"), "127.77.0.2")
	table.Release(owner("shop/b"), noon(), minutes(5))

	local.Name = "renamed"
	table.SetPools([]Pool{local})
	if v := table.Assign(ask("shop/a", from("renamed")), noon()); v.Changed || v.Pools[0] != "renamed" || v.Reason != AddressAssigned {
		t.Errorf("after renaming: %+v", v)
	}
	given(t, table, noon(), ask("shop/c"), "127.77.0.3")

	table.SetPools(nil)
	if v := given(t, table, noon(), ask("shop/a"), "127.77.0.1"); v.Reason != AddressOutsidePools {
		t.Errorf("without pools the reason is %s", v.Reason)
	}
	table.SetPools([]Pool{local})
	table.SetExcluded([]netip.Prefix{netip.MustParsePrefix("::ffff:127.77.0.4/126")})
	given(t, table, noon(), ask("shop/d"), "127.77.0.8")
	if diff := cmp.Diff([]model.Key{owner("shop/d")}, table.Holders(netip.MustParseAddr("127.77.0.8"))); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	if got := table.Holders(netip.MustParseAddr("127.77.0.2")); got != nil {
		t.Errorf("holders of a reserved address = %v", got)
	}
}

func TestListingsAreCopies(t *testing.T) {
	table := NewTable([]Pool{pool(t, "local", "127.77.0.0/16")}, nil)
	v := given(t, table, noon(), ask("shop/a"), "127.77.0.1")
	v.Addresses[0] = netip.Addr{}
	table.Holdings()[0].Addresses[0] = netip.Addr{}
	h, _ := table.Holding(owner("shop/a"))
	h.Ports[0] = model.Port{}
	want := Holding{Owner: owner("shop/a"), Created: noon(), Addresses: addrs("127.77.0.1"), Ports: tcp(80)}
	if got, _ := table.Holding(owner("shop/a")); !cmp.Equal(want, got, values()) {
		t.Errorf("a caller changed the table: %+v", got)
	}
}
