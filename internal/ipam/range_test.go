package ipam

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/model"
)

func TestParseRange(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   string // String of the range; empty: an error
		first  string
		last   string
	}{
		"Prefix":       {"a subnet", "192.0.2.0/24", "192.0.2.0/24", "192.0.2.0", "192.0.2.255"},
		"HostBits":     {"host bits are masked off", "192.0.2.10/24", "192.0.2.0/24", "192.0.2.0", "192.0.2.255"},
		"Loopback":     {"the local provider's pool", "127.77.0.0/16", "127.77.0.0/16", "127.77.0.0", "127.77.255.255"},
		"Single":       {"one address", "192.0.2.1/32", "192.0.2.1/32", "192.0.2.1", "192.0.2.1"},
		"IPv6":         {"a subnet of 2^64", "2001:db8::/64", "2001:db8::/64", "2001:db8::", "2001:db8::ffff:ffff:ffff:ffff"},
		"IPv6Odd":      {"a length that is no multiple of 8", "2001:db8::/61", "2001:db8::/61", "2001:db8::", "2001:db8:0:7:ffff:ffff:ffff:ffff"},
		"Ends":         {"from and to", "192.0.2.10-192.0.2.20", "192.0.2.10-192.0.2.20", "192.0.2.10", "192.0.2.20"},
		"Spaces":       {"spaces are trimmed", " 192.0.2.10 - 192.0.2.20 ", "192.0.2.10-192.0.2.20", "192.0.2.10", "192.0.2.20"},
		"EndsOfSubnet": {"a run that happens to be a subnet stays a run", "192.0.2.0-192.0.2.255", "192.0.2.0-192.0.2.255", "192.0.2.0", "192.0.2.255"},
		"Bare":         {reason: "a single address must say so", text: "192.0.2.1"},
		"Empty":        {reason: "nothing", text: ""},
		"Mixed":        {reason: "two families", text: "192.0.2.1-2001:db8::1"},
		"Reversed":     {reason: "the end is below the start", text: "192.0.2.9-192.0.2.1"},
		"Mapped":       {reason: "IPv4 in IPv6 clothes", text: "::ffff:192.0.2.0/120"},
		"Zone":         {reason: "a zone means nothing to a client", text: "2001:db8::1%eth0-2001:db8::2%eth0"},
		"All":          {reason: "everything", text: "0.0.0.0/0"},
		"AllIPv6":      {reason: "everything", text: "::/0"},
		"Multicast":    {reason: "no host", text: "224.0.0.0/4"},
		"Broadcast":    {reason: "no host", text: "255.255.255.255/32"},
		"LinkLocal":    {reason: "not routed", text: "fe80::/64"},
		"LinkLocalv4":  {reason: "not routed", text: "169.254.1.0-169.254.2.0"},
		"HalfText":     {reason: "one end is missing", text: "192.0.2.1-"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r, err := ParseRange(tc.text)
			if tc.want == "" {
				if !errors.Is(err, ErrRange) {
					t.Fatalf("%s: ParseRange(%q) = %v, %v, want ErrRange", tc.reason, tc.text, r, err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			got := []string{r.String(), r.First.String(), r.Last.String()}
			if diff := cmp.Diff([]string{tc.want, tc.first, tc.last}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func FuzzParseRange(f *testing.F) {
	for _, text := range []string{"192.0.2.0/24", "192.0.2.1-192.0.2.9", "2001:db8::/61", "::ffff:1.2.3.4/120", "-", "1.1.1.1/0", "fe80::1%a-fe80::2%a"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRange(text)
		if err != nil {
			if r != (Range{}) || !errors.Is(err, ErrRange) {
				t.Fatalf("ParseRange(%q) = %v, %v", text, r, err)
			}
			return
		}
		if !r.Contains(r.First) || !r.Contains(r.Last) || r.Family() != model.FamilyOf(r.Last) {
			t.Fatalf("ParseRange(%q) = %v does not hold its ends", text, r)
		}
		if again, err := ParseRange(r.String()); err != nil || again != r {
			t.Fatalf("ParseRange(%q) = %v, read back as %v, %v", text, r, again, err)
		}
	})
}

func TestSubnetEdges(t *testing.T) {
	cases := map[string]struct {
		reason, text string
		want         string // what automatic assignment gives, in order
	}{
		"IPv4":         {"neither network nor broadcast address", "192.0.2.0/30", "192.0.2.1 192.0.2.2"},
		"PointToPoint": {"RFC 3021: a /31 has two hosts", "192.0.2.0/31", "192.0.2.0 192.0.2.1"},
		"Host":         {"a /32 is one host", "192.0.2.0/32", "192.0.2.0"},
		"IPv6":         {"RFC 4291: the first address is the routers'; there is no broadcast", "2001:db8::/126", "2001:db8::1 2001:db8::2 2001:db8::3"},
		"IPv6Pair":     {"RFC 6164: a /127 has two hosts", "2001:db8::/127", "2001:db8:: 2001:db8::1"},
		"Run":          {"a run is used whole", "192.0.2.0-192.0.2.3", "192.0.2.0 192.0.2.1 192.0.2.2 192.0.2.3"},
		"LastOfAll":    {"the space ends without wrapping", "255.255.255.252-255.255.255.254", "255.255.255.252 255.255.255.253 255.255.255.254"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			table := NewTable([]Pool{pool(t, "p", tc.text)}, nil)
			var got []string
			for {
				f := table.views[0].Ranges[0].Family()
				v := table.Assign(ask("shop/"+string(rune('a'+len(got))), families(f)), noon())
				if len(v.Addresses) == 0 {
					break
				}
				got = append(got, v.Addresses[0].String())
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCheckPools(t *testing.T) {
	good := pool(t, "good", "192.0.2.0/25", "2001:db8::/64")
	wide := pool(t, "wide", "192.0.0.0/16")
	cases := map[string]struct {
		reason string
		pools  []Pool
		want   string
	}{
		"Good":      {"nothing to say", []Pool{good, pool(t, "next", "192.0.2.128/25")}, ""},
		"NameTwice": {"a name is one pool's", []Pool{good, {Name: "good", Ranges: pool(t, "x", "10.0.0.0/8").Ranges}}, `checking pool "good": its name is missing or taken`},
		"NoName":    {"a pool has a name", []Pool{pool(t, "", "192.0.2.0/24")}, `checking pool "": its name is missing or taken`},
		"NoRange":   {"a pool has addresses", []Pool{{Name: "x"}}, `checking pool "x": it has no addresses`},
		"NoAddress": {"a zero range is none", []Pool{{Name: "x", Ranges: []Range{{}}}}, `checking pool "x": not a range of addresses: it has no ends`},
		"Overlaps": {
			"each overlap is told, also of a range that others lie between",
			[]Pool{wide, good, pool(t, "inner", "192.0.200.0/24")},
			"checking pool \"good\": its range 192.0.2.0/25 overlaps 192.0.0.0/16 of pool \"wide\"\n" +
				"checking pool \"inner\": its range 192.0.200.0/24 overlaps 192.0.0.0/16 of pool \"wide\"",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := CheckPools(tc.pools); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestExclusions(t *testing.T) {
	x := newExclusions([]netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.1.2.3/32"), netip.MustParsePrefix("2001:db8::/32"),
		netip.MustParsePrefix("10.1.9.9/16"), netip.MustParsePrefix("::ffff:10.3.0.0/112"),
		{},
	})
	for text, want := range map[string]string{
		"10.0.255.255": "", "10.1.0.0": "10.1.0.0/16", "10.1.2.3": "10.1.0.0/16", "10.1.255.255": "10.1.0.0/16", "10.2.0.0": "",
		"10.3.1.1": "10.3.0.0/16", "2001:db8:1::1": "2001:db8::/32", "2001:db9::": "", "0.0.0.0": "", "ffff::": "",
	} {
		got := ""
		if p, ok := x.of(netip.MustParseAddr(text)); ok {
			got = p.String()
		}
		if got != want {
			t.Errorf("%s is excluded by %q, want %q", text, got, want)
		}
	}
}
