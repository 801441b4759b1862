package ipam

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// noon is when the tests play.
func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }

func owner(text string) model.Key {
	namespace, name, _ := strings.Cut(text, "/")
	return model.Key{Namespace: namespace, Name: name}
}

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func tcp(numbers ...uint16) []model.Port {
	var ports []model.Port
	for _, n := range numbers {
		ports = append(ports, model.Port{Protocol: model.TCP, Number: n})
	}
	return ports
}

func pool(t *testing.T, name string, ranges ...string) Pool {
	t.Helper()
	p := Pool{Name: name, AutoAssign: true}
	for _, text := range ranges {
		r, err := ParseRange(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Ranges = append(p.Ranges, r)
	}
	return p
}

// ask is a single-stack IPv4 request for TCP/80, as edited.
func ask(who string, edit ...func(*Request)) Request {
	r := Request{Owner: owner(who), Created: noon(), Families: []model.Family{model.IPv4}, Ports: tcp(80)}
	for _, e := range edit {
		e(&r)
	}
	return r
}

func at(texts ...string) func(*Request)      { return func(r *Request) { r.Addresses = addrs(texts...) } }
func from(name string) func(*Request)        { return func(r *Request) { r.Pool = name } }
func within(names ...string) func(*Request)  { return func(r *Request) { r.Pools = names } }
func ports(numbers ...uint16) func(*Request) { return func(r *Request) { r.Ports = tcp(numbers...) } }
func created(when time.Time) func(*Request)  { return func(r *Request) { r.Created = when } }
func delay(d time.Duration) func(*Request)   { return func(r *Request) { r.Delay = d } }
func requireAll() func(*Request)             { return func(r *Request) { r.RequireAll = true } }
func families(f ...model.Family) func(*Request) {
	return func(r *Request) { r.Families = f }
}

// shared is MetalLB's sharing, over all namespaces; own is within the owner's.
func shared(key string) func(*Request) { return func(r *Request) { r.Share = Share{Key: key} } }

func own(key string) func(*Request) {
	return func(r *Request) { r.Share = Share{Key: key, Namespace: r.Owner.Namespace} }
}
func backend(text string) func(*Request) { return func(r *Request) { r.Share.Backend = text } }

// brief is the part of a verdict that most cases are about.
type brief struct {
	Addresses, Pools string
	Reason           Reason
	Message          string
	Partial, Changed bool
	Refused          string
}

func briefly(v Verdict) brief {
	var refused []string
	for _, e := range v.RefusedPorts {
		refused = append(refused, e.Port.String())
	}
	b := brief{
		Pools: strings.Join(v.Pools, ","), Reason: v.Reason, Message: v.Message, Partial: v.Partial, Changed: v.Changed,
		Refused: strings.Join(refused, ","),
	}
	if len(v.Addresses) > 0 {
		b.Addresses = model.JoinAddrs(v.Addresses)
	}
	return b
}

func TestAssign(t *testing.T) {
	local := pool(t, "local", "127.77.0.0/16")
	dual := pool(t, "dual", "192.0.2.0/29", "2001:db8::/64")
	four := pool(t, "four", "192.0.2.0/29")
	six := pool(t, "six", "2001:db8::/64")
	manual := pool(t, "manual", "198.51.100.0/30")
	manual.AutoAssign = false
	buggy := pool(t, "buggy", "203.0.113.254-203.0.114.1")
	buggy.AvoidBuggyIPs = true
	first := pool(t, "z-first", "203.0.113.10-203.0.113.11")
	first.Priority = 1
	second := pool(t, "a-second", "203.0.113.20-203.0.113.20")
	second.Priority = 2
	both := families(model.IPv4, model.IPv6)

	cases := map[string]struct {
		reason   string
		pools    []Pool
		excluded []string
		restored []Holding
		reserved []Reservation
		before   []Request
		ask      Request
		want     brief
	}{
		"FirstOfSubnet": {
			reason: "the network address of a subnet is not given out automatically",
			pools:  []Pool{local}, ask: ask("shop/web"),
			want: brief{"127.77.0.1", "local", AddressAssigned, "127.77.0.1 from pool local", false, true, ""},
		},
		"NetworkAddressByName": {
			reason: "a subnet may be part of a wider one, so its first address can be asked for",
			pools:  []Pool{local}, ask: ask("shop/web", at("127.77.0.0")),
			want: brief{"127.77.0.0", "local", AddressAssigned, "127.77.0.0 from pool local", false, true, ""},
		},
		"RangeIsUsedFromItsFirst": {
			reason: "a range written as first-last has no network address",
			pools:  []Pool{first}, ask: ask("shop/web"),
			want: brief{"203.0.113.10", "z-first", AddressAssigned, "203.0.113.10 from pool z-first", false, true, ""},
		},
		"PriorityBeforeName": {
			reason: "priority 1 is first, 2 next, none last",
			pools:  []Pool{four, second, first}, ask: ask("shop/c"),
			before: []Request{ask("shop/a"), ask("shop/b")},
			want:   brief{"203.0.113.20", "a-second", AddressAssigned, "203.0.113.20 from pool a-second", false, true, ""},
		},
		"NoPriorityIsLast": {
			reason: "a pool without priority is used when those with one are full",
			pools:  []Pool{four, second}, before: []Request{ask("shop/a")}, ask: ask("shop/b"),
			want: brief{"192.0.2.1", "four", AddressAssigned, "192.0.2.1 from pool four", false, true, ""},
		},
		"AvoidBuggy": {
			reason: ".255 and .0 are skipped",
			pools:  []Pool{buggy}, before: []Request{ask("shop/a")}, ask: ask("shop/b"),
			want: brief{"203.0.114.1", "buggy", AddressAssigned, "203.0.114.1 from pool buggy", false, true, ""},
		},
		"AvoidBuggyByName": {
			reason: "they are refused by name as well",
			pools:  []Pool{buggy}, ask: ask("shop/b", at("203.0.113.255")),
			want: brief{"", "", AddressExcluded, "203.0.113.255 ends in .0 or .255, which pool buggy avoids; ask for another address", true, false, ""},
		},
		"ExcludedIsSkipped": {
			reason: "an address of a node is never given out", excluded: []string{"192.0.2.1/32", "192.0.2.2/31", "192.0.2.0/30"},
			pools: []Pool{four}, ask: ask("shop/a"),
			want: brief{"192.0.2.4", "four", AddressAssigned, "192.0.2.4 from pool four", false, true, ""},
		},
		"ExcludedByName": {
			reason: "nor when it is asked for", excluded: []string{"192.0.2.1/32"},
			pools: []Pool{four}, ask: ask("shop/a", at("192.0.2.1")),
			want: brief{
				"", "", AddressExcluded,
				"192.0.2.1 lies in 192.0.2.1/32, which the cluster itself uses and no pool gives out; ask for another address", true, false, "",
			},
		},
		"HeldThenExcluded": {
			reason: "what is held stays held and is marked", excluded: []string{"192.0.2.1/32"},
			pools: []Pool{four}, restored: []Holding{{Owner: owner("shop/a"), Addresses: addrs("192.0.2.1")}}, ask: ask("shop/a"),
			want: brief{
				"192.0.2.1", "four", AddressExcluded,
				"192.0.2.1 lies in 192.0.2.1/32, which the cluster itself uses; it is kept until shop/a is re-created", false, false, "",
			},
		},
		"ManualPoolIsNotAutomatic": {
			reason: "a pool without autoAssign must be named",
			pools:  []Pool{manual}, ask: ask("shop/a"),
			want: brief{"", "", FamilyUnavailable, "no pool assigns addresses to shop/a automatically; it may use manual", true, false, ""},
		},
		"ManualPoolByName": {
			reason: "naming it is enough",
			pools:  []Pool{four, manual}, ask: ask("shop/a", from("manual")),
			want: brief{"198.51.100.1", "manual", AddressAssigned, "198.51.100.1 from pool manual", false, true, ""},
		},
		"ManualPoolByAddress": {
			reason: "and so is naming an address",
			pools:  []Pool{four, manual}, ask: ask("shop/a", at("198.51.100.2")),
			want: brief{"198.51.100.2", "manual", AddressAssigned, "198.51.100.2 from pool manual", false, true, ""},
		},
		"UnknownPool": {
			reason: "the message names the pools there are",
			pools:  []Pool{four, local}, ask: ask("shop/a", from("nope")),
			want: brief{"", "", UnknownPool, `there is no pool "nope"; it may use four, local`, true, false, ""},
		},
		"PoolNotAllowed": {
			reason: "the caller's selection holds for named pools",
			pools:  []Pool{four, local}, ask: ask("shop/a", from("four"), within("local")),
			want: brief{"", "", PoolNotAllowed, "shop/a may not use pool four; it may use local", true, false, ""},
		},
		"AddressOfPoolNotAllowed": {
			reason: "and for named addresses",
			pools:  []Pool{four, local}, ask: ask("shop/a", at("192.0.2.1"), within("local")),
			want: brief{"", "", PoolNotAllowed, "192.0.2.1 is in pool four, which shop/a may not use; it may use local", true, false, ""},
		},
		"NoPoolAllowed": {
			reason: "an empty selection is none, not all (fail closed)",
			pools:  []Pool{four}, ask: ask("shop/a", within([]string{}...), func(r *Request) { r.Pools = []string{} }),
			want: brief{
				"", "", FamilyUnavailable,
				"no pool assigns addresses to shop/a automatically; there is none it may use", true, false, "",
			},
		},
		"AddressInNoPool": {
			reason: "the message names ranges and remedy",
			pools:  []Pool{local}, ask: ask("shop/a", at("198.51.100.9")),
			want: brief{
				"", "", AddressNotInPool,
				"198.51.100.9 is in no pool (local: 127.77.0.0/16); add it to one or ask for an address of a pool", true, false, "",
			},
		},
		"AddressInOtherPool": {
			reason: "an address and a pool asked for together must agree",
			pools:  []Pool{local, four}, ask: ask("shop/a", at("192.0.2.1"), from("local")),
			want: brief{
				"", "", AddressNotInPool,
				"192.0.2.1 is not in pool local that is asked for, but in four; ask for one or the other", true, false, "",
			},
		},
		"RefusedRequestKeepsAddress": {
			reason: "an edit to an unavailable address does not take the service down",
			pools:  []Pool{local}, before: []Request{ask("shop/a")}, ask: ask("shop/a", at("198.51.100.9")),
			want: brief{
				"127.77.0.1", "local", AddressNotInPool,
				"198.51.100.9 is in no pool (local: 127.77.0.0/16); add it to one or ask for an address of a pool; keeps 127.77.0.1", false, false, "",
			},
		},
		"UnknownPoolKeepsAddress": {
			reason: "nor does an edit to an unknown pool",
			pools:  []Pool{local}, before: []Request{ask("shop/a")}, ask: ask("shop/a", from("x")),
			want: brief{"127.77.0.1", "local", UnknownPool, `there is no pool "x"; it may use local; keeps 127.77.0.1`, false, false, ""},
		},
		"FullPoolKeepsAddress": {
			reason: "a move into a full pool waits on the old address",
			pools:  []Pool{local, second}, before: []Request{ask("shop/b", from("a-second")), ask("shop/a", from("local"))},
			ask: ask("shop/a", from("a-second")),
			want: brief{
				"127.77.0.1", "local", PoolExhausted,
				"no free IPv4 address in pool a-second: 1 in use; release one or add a range; keeps 127.77.0.1", false, false, "",
			},
		},
		"MoveToPool": {
			reason: "a request for another pool moves the owner",
			pools:  []Pool{local, four}, before: []Request{ask("shop/a", from("local"))}, ask: ask("shop/a", from("four")),
			want: brief{"192.0.2.1", "four", AddressAssigned, "192.0.2.1 from pool four", false, true, ""},
		},
		"RestoredOutsidePools": {
			reason: "a restored address is taken over as it is, and marked",
			pools:  []Pool{local}, restored: []Holding{{Owner: owner("shop/a"), Addresses: addrs("10.9.9.9")}}, ask: ask("shop/a"),
			want: brief{
				"10.9.9.9", "", AddressOutsidePools,
				"10.9.9.9 is in no pool any more (local: 127.77.0.0/16); add it to one, or re-create shop/a to get another", false, false, "",
			},
		},
		"PoolWithdrawn": {
			reason: "narrowing a pool's selection drops nobody",
			pools:  []Pool{local, four}, before: []Request{ask("shop/a")}, ask: ask("shop/a", within("local")),
			want: brief{
				"192.0.2.1", "", AddressOutsidePools,
				"192.0.2.1 is in pool four, which shop/a may no longer use; it is kept until shop/a is re-created", false, false, "",
			},
		},
		"SamePortTwice": {
			reason: "two owners never meet on address, port and protocol",
			pools:  []Pool{local}, before: []Request{ask("shop/web", shared("k"), at("127.77.0.4"))},
			ask: ask("shop/b", shared("k"), at("127.77.0.4")),
			want: brief{
				"", "", AddressInUse,
				"127.77.0.4 TCP/80 is in use by shop/web; change the port or ask for another address", true, false, "",
			},
		},
		"SamePortOfOtherProtocol": {
			reason: "TCP and UDP of one number do not meet",
			pools:  []Pool{local}, before: []Request{ask("shop/web", shared("k"))},
			ask:  ask("shop/b", shared("k"), func(r *Request) { r.Ports = []model.Port{{Protocol: model.UDP, Number: 80}} }),
			want: brief{"127.77.0.1", "local", AddressAssigned, "127.77.0.1 from pool local", false, true, ""},
		},
		"NoKeyIsExclusive": {
			reason: "without a sharing key an address belongs to one owner",
			pools:  []Pool{local}, before: []Request{ask("shop/web", at("127.77.0.4"))},
			ask: ask("shop/b", shared("k"), ports(81), at("127.77.0.4")),
			want: brief{
				"", "", AddressInUse,
				"127.77.0.4 is in use by shop/web; ask for another address, or give both the same sharing key", true, false, "",
			},
		},
		"OtherKey": {
			reason: "the holder's key is not told",
			pools:  []Pool{local}, before: []Request{ask("shop/web", shared("secret"), at("127.77.0.4"))},
			ask: ask("shop/b", shared("k"), ports(81), at("127.77.0.4")),
			want: brief{
				"", "", SharingRefused,
				"127.77.0.4 is shared by shop/web with another sharing key; use the same key or ask for another address", true, false, "",
			},
		},
		"OtherBackend": {
			reason: "Local beside Cluster would lose traffic",
			pools:  []Pool{local}, before: []Request{ask("shop/web", shared("k"), at("127.77.0.4"))},
			ask: ask("shop/b", shared("k"), backend("app=b"), ports(81), at("127.77.0.4")),
			want: brief{
				"", "", SharingRefused,
				"127.77.0.4 is shared by shop/web, whose traffic policy or selector differs; make them equal or ask for another address", true, false, "",
			},
		},
		"NeutralKeyOverNamespaces": {
			reason: "a neutral key counts within the namespace only",
			pools:  []Pool{local}, before: []Request{ask("shop/web", own("k"), at("127.77.0.4"))},
			ask: ask("evil/b", own("k"), ports(81), at("127.77.0.4")),
			want: brief{
				"", "", SharingRefused,
				"127.77.0.4 is shared by shop/web within its namespace only; ask for another address", true, false, "",
			},
		},
		"NeutralHolderLegacyAsker": {
			reason: "also against somebody who asks by the legacy rule",
			pools:  []Pool{local}, before: []Request{ask("shop/web", own("k"))}, ask: ask("evil/b", shared("k"), ports(81)),
			want: brief{"127.77.0.2", "local", AddressAssigned, "127.77.0.2 from pool local", false, true, ""},
		},
		"NeutralAndLegacyInOneNamespace": {
			reason: "within the namespace both rules are met",
			pools:  []Pool{local}, before: []Request{ask("shop/web", own("k"))}, ask: ask("shop/b", shared("k"), ports(81)),
			want: brief{"127.77.0.1", "local", AddressAssigned, "127.77.0.1 from pool local", false, true, ""},
		},
		"LegacyOverNamespaces": {
			reason: "MetalLB's key joins owners of any namespace",
			pools:  []Pool{local}, before: []Request{ask("shop/web", shared("k"))}, ask: ask("other/b", shared("k"), ports(81)),
			want: brief{"127.77.0.1", "local", AddressAssigned, "127.77.0.1 from pool local", false, true, ""},
		},
		"PortEditedIntoConflict": {
			reason: "an edit evicts nobody: the port is refused, the others serve",
			pools:  []Pool{local}, before: []Request{ask("shop/a", shared("k")), ask("shop/b", shared("k"), ports(443))},
			ask: ask("shop/b", shared("k"), ports(80, 443)),
			want: brief{
				"127.77.0.1", "local", AddressInUse,
				"127.77.0.1 TCP/80 is in use by shop/a; change the port or ask for another address", false, false, "TCP/80",
			},
		},
		"KeyEditedIntoConflict": {
			reason: "the former terms stay in force and nothing new is granted",
			pools:  []Pool{local}, before: []Request{ask("shop/a", shared("k")), ask("shop/b", shared("k"), ports(443))},
			ask: ask("shop/b", shared("x"), ports(443, 444)),
			want: brief{
				"127.77.0.1", "local", SharingRefused,
				"127.77.0.1 is shared by shop/a with another sharing key; use the same key or ask for another address; keeps 127.77.0.1",
				false, false, "TCP/444",
			},
		},
		"KeyEditedWhenAlone": {
			reason: "terms change in place when nobody else is there",
			pools:  []Pool{local}, before: []Request{ask("shop/a", shared("k"))}, ask: ask("shop/a", shared("x")),
			want: brief{"127.77.0.1", "local", AddressAssigned, "127.77.0.1 from pool local", false, false, ""},
		},
		"HeldForFormerOwner": {
			reason: "an explicit request of another owner is refused",
			pools:  []Pool{local}, reserved: []Reservation{
				{netip.MustParseAddr("127.77.0.4"), owner("shop/web"), noon(), noon().Add(minutes(152))},
			},
			ask: ask("shop/b", at("127.77.0.4")),
			want: brief{
				"", "", AddressHeld,
				"127.77.0.4 is held for shop/web until 14:32; re-create it to get the address back", true, false, "",
			},
		},
		"HeldUntilAnotherDay": {
			reason: "a time of another day is written with its date",
			pools:  []Pool{local}, reserved: []Reservation{
				{netip.MustParseAddr("127.77.0.4"), owner("shop/web"), noon(), noon().Add(24 * time.Hour)},
			},
			ask: ask("shop/b", at("127.77.0.4")),
			want: brief{
				"", "", AddressHeld,
				"127.77.0.4 is held for shop/web until 2026-03-05 12:00; re-create it to get the address back", true, false, "",
			},
		},
		"HeldButWaiting": {
			reason: "who asked before the address was released was next in line",
			pools:  []Pool{local}, reserved: []Reservation{
				{netip.MustParseAddr("127.77.0.4"), owner("shop/web"), noon(), noon().Add(minutes(152))},
			},
			ask:  ask("shop/b", at("127.77.0.4"), created(noon().Add(-time.Second))),
			want: brief{"127.77.0.4", "local", AddressAssigned, "127.77.0.4 from pool local", false, true, ""},
		},
		"HeldIsAvoided": {
			reason: "automatic assignment leaves a freed address alone",
			pools:  []Pool{local}, reserved: []Reservation{
				{netip.MustParseAddr("127.77.0.1"), owner("shop/web"), noon(), noon().Add(minutes(9))},
			},
			ask:  ask("shop/b", created(noon().Add(-time.Second))),
			want: brief{"127.77.0.2", "local", AddressAssigned, "127.77.0.2 from pool local", false, true, ""},
		},
		"HeldIsNoReserve": {
			reason: "a full pool does not break reservations; the message says when the first ends",
			pools:  []Pool{first}, before: []Request{ask("shop/a")}, reserved: []Reservation{
				{netip.MustParseAddr("203.0.113.11"), owner("shop/web"), noon().Add(-minutes(1)), noon().Add(minutes(9))},
			},
			ask: ask("shop/b"),
			want: brief{
				"", "", PoolExhausted,
				"no free IPv4 address in pool z-first: 1 in use, 1 held for earlier owners, the first until 12:09; release one or add a range",
				true, false, "",
			},
		},
		"LastResortOfTheWaiting": {
			reason: "an owner that was pending when the pool's only address was released gets it at once",
			pools:  []Pool{second}, reserved: []Reservation{
				{netip.MustParseAddr("203.0.113.20"), owner("shop/web"), noon(), noon().Add(minutes(9))},
			},
			ask:  ask("shop/b", created(noon().Add(-time.Second))),
			want: brief{"203.0.113.20", "a-second", AddressAssigned, "203.0.113.20 from pool a-second", false, true, ""},
		},
		"FormerOwnerReturns": {
			reason: "a re-created owner gets its address back",
			pools:  []Pool{local}, reserved: []Reservation{
				{netip.MustParseAddr("127.77.0.4"), owner("shop/web"), noon(), noon().Add(minutes(9))},
			},
			ask:  ask("shop/web", created(noon().Add(minutes(1)))),
			want: brief{"127.77.0.4", "local", AddressAssigned, "127.77.0.4 from pool local", false, true, ""},
		},
		"FormerOwnerOfVanishedPool": {
			reason: "a reservation outside of every pool brings nothing back",
			pools:  []Pool{local}, reserved: []Reservation{
				{netip.MustParseAddr("10.1.1.1"), owner("shop/web"), noon(), noon().Add(minutes(9))},
			},
			ask:  ask("shop/web"),
			want: brief{"127.77.0.1", "local", AddressAssigned, "127.77.0.1 from pool local", false, true, ""},
		},
		"DualFromOnePool": {
			reason: "a pool with both families goes before two with one each",
			pools:  []Pool{pool(t, "a-four", "203.0.113.0/29"), dual}, ask: ask("shop/a", both),
			want: brief{"192.0.2.1,2001:db8::1", "dual,dual", AddressAssigned, "192.0.2.1,2001:db8::1 from pool dual", false, true, ""},
		},
		"DualFromTwoPools": {
			reason: "two single-family pools do as well",
			pools:  []Pool{four, six}, ask: ask("shop/a", families(model.IPv6, model.IPv4), requireAll()),
			want: brief{"2001:db8::1,192.0.2.1", "six,four", AddressAssigned, "2001:db8::1,192.0.2.1 from pools six, four", false, true, ""},
		},
		"PreferDualWithoutIPv6": {
			reason: "what can be had is given, with a note",
			pools:  []Pool{four}, ask: ask("shop/a", both),
			want: brief{
				"192.0.2.1", "four", AddressAssigned,
				"192.0.2.1 from pool four; no IPv6 addresses in pool four; add a range to it or change the families", true, true, "",
			},
		},
		"RequireDualWithoutIPv6": {
			reason: "all or nothing",
			pools:  []Pool{four}, ask: ask("shop/a", both, requireAll()),
			want: brief{"", "", FamilyUnavailable, "no IPv6 addresses in pool four; add a range to it or change the families", true, false, ""},
		},
		"RequireDualAddsToHeld": {
			reason: "a holder of one family keeps it and gets the other from the same pool",
			pools:  []Pool{dual, pool(t, "a", "2001:db8:1::/64")}, before: []Request{ask("shop/a")}, ask: ask("shop/a", both, requireAll()),
			want: brief{"192.0.2.1,2001:db8::1", "dual,dual", AddressAssigned, "192.0.2.1,2001:db8::1 from pool dual", false, true, ""},
		},
		"RequireDualKeepsWorking": {
			reason: "a holder of one family keeps it while the other cannot be had",
			pools:  []Pool{four}, before: []Request{ask("shop/a")}, ask: ask("shop/a", both, requireAll()),
			want: brief{
				"192.0.2.1", "four", FamilyUnavailable,
				"no IPv6 addresses in pool four; add a range to it or change the families; keeps 192.0.2.1", true, false, "",
			},
		},
		"OneAddressNamedOfTwoFamilies": {
			reason: "the family without a named address is assigned automatically",
			pools:  []Pool{dual}, ask: ask("shop/a", both, at("2001:db8::77")),
			want: brief{"192.0.2.1,2001:db8::77", "dual,dual", AddressAssigned, "192.0.2.1,2001:db8::77 from pool dual", false, true, ""},
		},
		"FamilyDropped": {
			reason: "from dual to single stack the other family's address is given up",
			pools:  []Pool{dual}, before: []Request{ask("shop/a", both)}, ask: ask("shop/a"),
			want: brief{"192.0.2.1", "dual", AddressAssigned, "192.0.2.1 from pool dual", false, true, ""},
		},
		"FamilyChangedInVain": {
			reason: "the working address stays until one of the new family can be had",
			pools:  []Pool{four}, before: []Request{ask("shop/a")}, ask: ask("shop/a", families(model.IPv6)),
			want: brief{
				"192.0.2.1", "four", FamilyUnavailable,
				"no IPv6 addresses in pool four; add a range to it or change the families; keeps 192.0.2.1", true, false, "",
			},
		},
		"WrongFamilyByName": {
			reason: "an address of a family that is not wanted is refused",
			pools:  []Pool{dual}, ask: ask("shop/a", at("2001:db8::7")),
			want: brief{
				"", "", FamilyMismatch,
				"2001:db8::7 is an IPv6 address, but shop/a wants IPv4; ask for an address of that family or change the families", true, false, "",
			},
		},
		"TwoOfAFamily": {
			reason: "one balancer has one address a family",
			pools:  []Pool{dual}, ask: ask("shop/a", at("192.0.2.1", "192.0.2.2")),
			want: brief{
				"", "", InvalidRequest,
				"shop/a asks for 192.0.2.1,192.0.2.2; ask for at most one valid address of each family", true, false, "",
			},
		},
		"NoFamily": {
			reason: "a request for nothing is an error of the caller, said as such",
			pools:  []Pool{dual}, ask: ask("shop/a", families()),
			want: brief{"", "", InvalidRequest, "shop/a asks for no address family; name at least one", false, false, ""},
		},
		"FamilyTwice": {
			reason: "as is a family named twice",
			pools:  []Pool{dual}, ask: ask("shop/a", families(model.IPv4, model.IPv4)),
			want: brief{"", "", InvalidRequest, "shop/a asks for IPv4 twice; name each family once", true, false, ""},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var excluded []netip.Prefix
			for _, text := range tc.excluded {
				excluded = append(excluded, netip.MustParsePrefix(text))
			}
			table := NewTable(tc.pools, excluded)
			for _, h := range tc.restored {
				table.Restore(h)
			}
			for _, r := range tc.reserved {
				table.Reserve(r)
			}
			for _, r := range tc.before {
				if v := table.Assign(r, noon()); len(v.Addresses) == 0 {
					t.Fatalf("preparing %s: %s", r.Owner, v.Message)
				}
			}
			if diff := cmp.Diff(tc.want, briefly(table.Assign(tc.ask, noon()))); diff != "" {
				t.Errorf("%s\nverdict (-want +got):\n%s", tc.reason, diff)
			}
			want := tc.want
			want.Changed = false
			if diff := cmp.Diff(want, briefly(table.Assign(tc.ask, noon()))); diff != "" {
				t.Errorf("asked again, the verdict is another (-want +got):\n%s", diff)
			}
		})
	}
}
