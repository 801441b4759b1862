package memory_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
)

// Apply breaks what its fault says, and applies what is left of the plan.
func (f *faulty) Apply(ctx context.Context, p plan.Plan) ([]model.PortError, error) {
	have, err := f.Backend.Observe(context.WithoutCancel(ctx), p.Key)
	if err != nil {
		return nil, err
	}
	if p.Remove && !p.Empty() {
		f.mu.Lock()
		f.gone = append(f.gone, p.Key)
		f.mu.Unlock()
	}
	if f.refuses(p, have) {
		return nil, errPlanted
	}
	switch f.fault {
	case contextIgnored:
		return f.Backend.Apply(context.WithoutCancel(ctx), p)
	case keysRace:
		return f.Backend.Apply(ctx, f.raced(p))
	case portErrorSilent, portErrorStops, portGivenUp:
		return f.applyPorts(ctx, p)
	default:
		return f.Backend.Apply(ctx, f.bent(p, have))
	}
}

// refuses tells whether the fault makes a plan fail that is to succeed.
func (f *faulty) refuses(p plan.Plan, have model.Observed) bool {
	switch f.fault {
	case createFailsTwice, halfHidden:
		return inTheWay(p, have)
	case deleteFails:
		return p.Remove && !have.Exists
	default:
		return false
	}
}

// inTheWay tells whether a plan creates a listener that is there.
func inTheWay(p plan.Plan, have model.Observed) bool {
	return slices.ContainsFunc(p.Steps, func(s plan.Step) bool {
		_, there := have.Balancer.Find(s.Port)
		return s.Verb == plan.Create && s.Kind == plan.Listener && there
	})
}

// bent returns the plan as a provider with the fault would understand it.
func (f *faulty) bent(p plan.Plan, have model.Observed) plan.Plan {
	without := func(drop func(plan.Step) bool) plan.Plan {
		p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), drop)
		return p
	}
	switch f.fault {
	case removalIsBlind:
		p.Have.Balancer.UID = ""
	case wantOverSteps:
		if !p.Remove {
			return plan.Diff(p.Want, have)
		}
	case updatesIgnored:
		return without(func(s plan.Step) bool { return s.Verb == plan.Update })
	case memberDeletesMissed:
		return without(func(s plan.Step) bool { return s.Verb == plan.Delete && s.Kind == plan.MemberKind })
	case unsetKept:
		return without(func(s plan.Step) bool { return len(s.Changes) > 0 && s.Changes[0].To == "" })
	case memoryShared:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.kept[p.Key] = p.Want
	case othersTouched:
		if p.Remove {
			f.removeSimilar(p.Key)
		}
	default:
	}
	return p
}

func (f *faulty) removeSimilar(key model.Key) {
	for _, name := range []string{key.Name + "-2", key.Name} {
		other := model.Key{Namespace: key.Namespace, Name: name}
		if other != key && strings.HasPrefix(other.Name, key.Name) {
			f.Change(other, func(model.Observed) model.Observed { return model.Observed{} })
		}
	}
}

// raced returns the plan of whoever called last. The time it waits is the bubble's.
func (f *faulty) raced(p plan.Plan) plan.Plan {
	f.mu.Lock()
	f.last = p
	f.mu.Unlock()
	<-time.After(time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *faulty) applyPorts(ctx context.Context, p plan.Plan) ([]model.PortError, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if failed, ok := f.gaveUp[p.Key]; ok {
		return failed, nil
	}
	failed, err := f.Backend.Apply(ctx, p)
	if err != nil || len(failed) == 0 {
		return failed, err
	}
	switch f.fault {
	case portErrorSilent:
		return nil, nil
	case portGivenUp:
		f.gaveUp[p.Key] = failed
	case portErrorStops:
		f.Change(p.Key, func(o model.Observed) model.Observed {
			o.Balancer.Listeners = slices.DeleteFunc(o.Balancer.Listeners,
				func(l model.Listener) bool { return l.Port.Compare(failed[0].Port) >= 0 })
			return o
		})
	default:
	}
	return failed, nil
}
