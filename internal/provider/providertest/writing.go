package providertest

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
)

// writing is the part of the contract on an Apply that goes well.
func writing() []Sentence {
	return []Sentence{
		{"apply twice is once", applyTwiceIsOnce},
		{"an empty plan writes nothing", emptyPlanWritesNothing},
		{"every change arrives", everyChangeArrives},
		{"an option that is unset returns to its default", unsetReturns},
		{"deleting the absent is no error", deletingAbsent},
		{"a removal leaves nothing", removalLeavesNothing},
		{"touches only what belongs to the plan's key", touchesOnlyItsKey},
		{"a new UID of the same name is another owner", newOwner},
		{"a removal planned for an old owner spares the new one", staleRemoval},
	}
}

func applyTwiceIsOnce(c check) {
	want := c.rich(0)
	c.bring(want)
	created := plan.Diff(want, model.Observed{})
	before := c.Snapshot()
	c.apply(created)
	c.unchanged(before, "creating once more what is there")
	changed := want.Normalize()
	changed.Listeners[0].Pool.Members[0].Weight = 7
	p := c.bring(changed)
	before = c.Snapshot()
	c.apply(p)
	c.unchanged(before, "applying a change twice")
	c.settled(changed)
}

func emptyPlanWritesNothing(c check) {
	before := c.Snapshot()
	idle := plan.Diff(c.plain(0), model.Observed{})
	idle.Steps = nil
	c.apply(idle)
	c.unchanged(before, "a plan without steps for an unknown key")
	c.bring(c.rich(0))
	before = c.Snapshot()
	c.apply(idle)
	c.unchanged(before, "a plan without steps")
}

// variants are changes of one kind each, all to the rich balancer.
func (c check) variants() []model.Balancer {
	change := func(f func(b *model.Balancer, l *model.Listener)) model.Balancer {
		b := c.rich(0)
		f(&b, &b.Listeners[0])
		return b.Normalize()
	}
	limit := 7
	list := []model.Balancer{
		change(func(_ *model.Balancer, l *model.Listener) { l.AllowedCIDRs = l.AllowedCIDRs[:1] }),
		change(func(_ *model.Balancer, l *model.Listener) { l.ConnectionLimit = &limit }),
		change(func(_ *model.Balancer, l *model.Listener) { l.Timeouts.ClientData *= 2 }),
		change(func(_ *model.Balancer, l *model.Listener) { l.Pool.Algorithm = model.SourceIP }),
		change(func(_ *model.Balancer, l *model.Listener) { l.Pool.ProxyProtocol = model.ProxyV1 }),
		change(func(_ *model.Balancer, l *model.Listener) { l.Pool.Monitor.Delay *= 2 }),
		change(func(_ *model.Balancer, l *model.Listener) { l.Pool.Monitor = model.Monitor{} }),
		change(func(_ *model.Balancer, l *model.Listener) { l.Pool.Members[0].Weight = 0 }),
		change(func(_ *model.Balancer, l *model.Listener) { l.Pool.Members = l.Pool.Members[1:] }),
		change(func(_ *model.Balancer, l *model.Listener) { l.Pool.Members = nil }),
		change(func(b *model.Balancer, _ *model.Listener) { b.Listeners = b.Listeners[1:] }),
	}
	if len(c.Addresses) > 0 {
		list = append(list, change(func(b *model.Balancer, _ *model.Listener) { b.Addresses = []netip.Addr{c.Addresses[3]} }))
	}
	return list
}

func everyChangeArrives(c check) {
	c.bring(c.rich(0))
	for _, want := range c.variants() {
		c.bring(want)
		c.settled(want)
		c.bring(c.rich(0))
		c.settled(c.rich(0))
	}
}

func unsetReturns(c check) {
	c.bring(c.rich(0))
	c.bring(c.plain(0))
	c.settled(c.plain(0))
	for _, l := range c.observe(keys()[0]).Balancer.Listeners {
		for _, s := range l.Settings() {
			if s.Value != "" {
				c.Errorf("%s of %s is %s, though nobody asks for it", s.Name, l.Port, s.Value)
			}
		}
	}
}

func deletingAbsent(c check) {
	want := c.rich(0)
	c.bring(want)
	fewer := want.Normalize()
	fewer.Listeners[0].Pool.Members = fewer.Listeners[0].Pool.Members[:1]
	fewer.Listeners = fewer.Listeners[:1]
	p := c.bring(fewer)
	c.apply(p)
	c.settled(fewer)
	gone := c.remove(want.Key)
	before := c.Snapshot()
	c.apply(gone)
	c.apply(plan.Remove(want.Key, model.Observed{Exists: true, Balancer: want}))
	c.unchanged(before, "deleting the absent")
}

func removalLeavesNothing(c check) {
	before := c.Snapshot()
	want := c.rich(0)
	c.bring(want)
	c.remove(want.Key)
	if o := c.observe(want.Key); o.Exists {
		c.Errorf("after its removal there is\n%s", o.Balancer.Text())
	}
	if list := c.list(); slices.Contains(list, want.Key) {
		c.Errorf("after its removal the key is listed: %v", list)
	}
	c.unchanged(before, "making and removing a balancer")
}

func touchesOnlyItsKey(c check) {
	others := keys()[1:]
	for i := range others {
		c.bring(c.plain(i + 1))
	}
	before := c.Snapshot()
	state := c.texts(others)
	c.bring(c.rich(0))
	for _, want := range c.variants()[:3] {
		c.bring(want)
	}
	if after := c.texts(others); after != state {
		c.Errorf("changing %s changed others from\n%s\nto\n%s", keys()[0], state, after)
	}
	c.remove(keys()[0])
	c.unchanged(before, "making, changing and removing another key")
}

func (c check) texts(of []model.Key) string {
	var text string
	for _, k := range of {
		text += fmt.Sprintln(c.observe(k).Balancer.Text())
	}
	return text
}

func newOwner(c check) {
	old := c.rich(0)
	c.bring(old)
	next := c.plain(0)
	next.UID = "uid-of-another"
	p := c.bring(next)
	c.settled(next)
	before := c.Snapshot()
	c.apply(p)
	c.unchanged(before, "replacing an owner twice")
}

func staleRemoval(c check) {
	old := c.plain(0)
	c.bring(old)
	stale := plan.Remove(old.Key, c.observe(old.Key))
	next := c.plain(0)
	next.UID = "uid-of-another"
	c.bring(next)
	before := c.Snapshot()
	c.apply(stale)
	c.unchanged(before, "a removal that was planned for the old owner")
}
