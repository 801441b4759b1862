package controller

import (
	"slices"
	"time"

	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/status"
)

// When another manager is taken for a rival, and for how long we then leave
// the ingress to it before we try again.
const (
	rivalRewrites = 3
	rivalWithin   = time.Minute
	rivalTruce    = 10 * time.Minute
)

// rivalry is what is known of others writing a Service's ingress. It is a
// value: see and say return the next one.
type rivalry struct {
	// said is the ingress that we wrote last, when spoken.
	said   []status.Ingress
	spoken bool
	// rewrites are when we found another ingress than we had written.
	rewrites []time.Time
	until    time.Time
}

// see takes note of the ingress that stands in the Service now.
func (r rivalry) see(published []status.Ingress, now time.Time) rivalry {
	if !r.spoken || kube.SameIngress(published, r.said) || r.active(now) {
		return r
	}
	r.rewrites = slices.DeleteFunc(slices.Clone(r.rewrites), func(t time.Time) bool { return now.Sub(t) > rivalWithin })
	r.rewrites = append(r.rewrites, now)
	if len(r.rewrites) >= rivalRewrites {
		r.until, r.rewrites = now.Add(rivalTruce), nil
	}
	return r
}

// say takes note of what we wrote.
func (r rivalry) say(ingress []status.Ingress) rivalry {
	r.said, r.spoken = slices.Clone(ingress), true
	return r
}

// active tells whether the ingress is left to the rival.
func (r rivalry) active(now time.Time) bool { return now.Before(r.until) }
