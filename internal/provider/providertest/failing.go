package providertest

import (
	"context"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
)

// failing is the part of the contract on an Apply that cannot do everything.
func failing() []Sentence {
	return []Sentence{
		{"a half-applied plan resumes", halfAppliedResumes},
		{"one port that cannot be served does not stop the others", otherPortsServe},
		{"a port is served once it can be", portRecovers},
		{"apply honours a cancelled context", cancelledApply},
	}
}

func halfAppliedResumes(c check) {
	next := c.rich(0)
	next.Listeners[0].Pool.Members = next.Listeners[0].Pool.Members[:1]
	next.Listeners = next.Listeners[:len(next.Listeners)-1]
	next = next.Normalize()
	for quarter := 1; quarter < 4; quarter++ {
		for _, want := range []model.Balancer{c.rich(0), next, c.plain(0)} {
			c.applyPart(plan.Diff(want, c.observe(want.Key)), quarter)
			c.bring(want)
			c.settled(want)
		}
		k := keys()[0]
		c.applyPart(plan.Remove(k, c.observe(k)), quarter)
		c.remove(k)
		if o := c.observe(k); o.Exists {
			c.Fatalf("a removal that stopped and went on leaves\n%s", o.Balancer.Text())
		}
	}
}

// applyPart applies the first quarters of a plan.
func (c check) applyPart(p plan.Plan, quarters int) {
	c.Helper()
	p.Steps = p.Steps[:(len(p.Steps)*quarters+3)/4]
	c.apply(p)
}

// serves tells whether the backend says that a port is served.
func serves(o model.Observed, p model.Port) bool {
	if _, there := o.Balancer.Find(p); !there {
		return false
	}
	for _, h := range o.Health {
		if h.Port == p && h.Error.Reason != "" {
			return false
		}
	}
	return true
}

func otherPortsServe(c check) {
	want := c.plain(0)
	bad, good := want.Listeners[0].Port, want.Listeners[1].Port
	release := c.Block(want, bad)
	defer release()
	failed := c.apply(plan.Diff(want, c.observe(want.Key)))
	if len(failed) != 1 || failed[0].Port != bad || failed[0].Reason == "" || failed[0].Message == "" {
		c.Errorf("port errors are %+v, want one of %s with a reason and a message", failed, bad)
	}
	o := c.observe(want.Key)
	if serves(o, bad) {
		c.Errorf("port %s is said to be served, though it cannot be", bad)
	}
	if !serves(o, good) {
		c.Errorf("port %s is not served because %s cannot be:\n%s", good, bad, o.Balancer.Text())
	}
}

func portRecovers(c check) {
	c.run()
	want := c.plain(0)
	bad := want.Listeners[0].Port
	release := c.Block(want, bad)
	if failed := c.apply(plan.Diff(want, c.observe(want.Key))); len(failed) == 0 {
		c.Errorf("port %s is blocked, and Apply reports no port error", bad)
	}
	release()
	c.eventually("the port is served after what blocked it has gone", func() bool {
		p := plan.Diff(want, c.observe(want.Key))
		return len(c.apply(p)) == 0 && serves(c.observe(want.Key), bad)
	})
	c.settled(want)
}

func cancelledApply(c check) {
	c.bring(c.plain(1))
	before := c.Snapshot()
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	for _, p := range []plan.Plan{
		plan.Diff(c.plain(0), model.Observed{}),
		plan.Remove(keys()[1], c.observe(keys()[1])),
	} {
		if _, err := c.Provider.Apply(ctx, p); !canceled(err) {
			c.Errorf("Apply returns %v, want an error that wraps context.Canceled", err)
		}
		c.unchanged(before, "an Apply whose context is cancelled")
	}
}
