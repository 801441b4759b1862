package providertest

import (
	"net/netip"
	"slices"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/provider"
)

// reading is the part of the contract on Traits, Observe and List.
func reading() []Sentence {
	return []Sentence{
		{"traits are complete and constant", traitsAreConstant},
		{"observing the unknown is no error", unknownIsNoError},
		{"observe and list write nothing", readsWriteNothing},
		{"observe after apply equals want", observeEqualsWant},
		{"an observation is a copy", observationIsCopy},
		{"list is sorted and holds every key", listIsSorted},
	}
}

func traitsAreConstant(c check) {
	first := c.Provider.Traits()
	if first.Name == "" || len(first.Protocols) == 0 {
		c.Errorf("the traits lack a name or protocols: %+v", first)
	}
	if first.Addresses != provider.FromPools && first.Addresses != provider.FromBackend {
		c.Errorf("the traits do not say who chooses addresses: %+v", first)
	}
	c.bring(c.plain(0))
	second := c.Provider.Traits()
	same := first.Name == second.Name && first.Addresses == second.Addresses &&
		first.ProxyMode == second.ProxyMode && slices.Equal(first.Protocols, second.Protocols)
	if !same {
		c.Errorf("the traits changed from %+v to %+v", first, second)
	}
}

func unknownIsNoError(c check) {
	for range 2 {
		if o := c.observe(keys()[0]); o.Exists {
			c.Fatalf("a key nobody applied exists:\n%s", o.Balancer.Text())
		}
		c.bring(c.plain(1))
	}
}

func readsWriteNothing(c check) {
	before := c.Snapshot()
	c.observe(keys()[0])
	c.list()
	c.unchanged(before, "reading an empty backend")
	c.bring(c.rich(0))
	before = c.Snapshot()
	for _, k := range keys() {
		c.observe(k)
	}
	c.list()
	c.unchanged(before, "reading")
}

func observeEqualsWant(c check) {
	want := c.rich(0)
	c.bring(want)
	c.settled(want)
	for _, a := range want.Addresses {
		if !slices.Contains(c.observe(want.Key).Balancer.Addresses, a) {
			c.Errorf("address %s is wanted and not observed", a)
		}
	}
	if len(c.observe(want.Key).Balancer.Addresses) == 0 {
		c.Errorf("a balancer that was applied has no address")
	}
}

func observationIsCopy(c check) {
	want := c.rich(0)
	p := plan.Diff(want, c.observe(want.Key))
	c.apply(p)
	before := c.Snapshot()
	scribble(p.Want)
	scribble(c.observe(want.Key).Balancer)
	c.unchanged(before, "writing to what was given to or came from the provider")
	c.settled(want)
}

// scribble overwrites everything that a balancer points to.
func scribble(b model.Balancer) {
	for i := range b.Addresses {
		b.Addresses[i] = netip.IPv6Unspecified()
	}
	for i := range b.Listeners {
		for j := range b.Listeners[i].AllowedCIDRs {
			b.Listeners[i].AllowedCIDRs[j] = netip.Prefix{}
		}
		for j := range b.Listeners[i].Pool.Members {
			b.Listeners[i].Pool.Members[j] = model.Member{}
		}
		b.Listeners[i] = model.Listener{}
	}
}

func listIsSorted(c check) {
	if list := c.list(); len(list) > 0 {
		c.Fatalf("an empty backend lists %v", list)
	}
	for i := range keys() {
		c.bring(c.plain(i))
	}
	want := slices.SortedFunc(slices.Values(keys()), model.Key.Compare)
	if list := c.list(); !slices.Equal(list, want) {
		c.Fatalf("List() = %v, want %v", list, want)
	}
}
