package memory_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/provider"
	"github.com/fairlead-lb/fairlead/internal/provider/memory"
	"github.com/fairlead-lb/fairlead/internal/provider/providertest"
)

// harness lets the suite look behind p, which is b or stands on it.
func harness(b *memory.Backend, p provider.Provider) providertest.Harness {
	h := providertest.Harness{
		Provider: p,
		Snapshot: b.Text,
		Ports:    []uint16{80, 443, 5353},
		Members:  []netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:8080"), netip.MustParseAddrPort("10.0.0.8:8080")},
		Block:    func(w model.Balancer, at model.Port) func() { return b.Block(w.Key, at) },
		Disturb:  func(w model.Balancer) { b.SetDown(w.Listeners[0].Pool.Members[0].Address, true) },
		Patience: time.Minute,
	}
	if b.Traits().Addresses == provider.FromPools {
		for _, a := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"} {
			h.Addresses = append(h.Addresses, netip.MustParseAddr(a))
		}
	}
	return h
}

// fault is one way to break the contract.
type fault string

const (
	none                fault = "there is no fault"
	traitsVary          fault = "traits vary"
	traitsIncomplete    fault = "traits are incomplete"
	unknownFails        fault = "observing the unknown fails"
	observeCreates      fault = "observe creates what it does not find"
	optionLost          fault = "an option is lost"
	addressLost         fault = "addresses are lost"
	memoryShared        fault = "the plan's memory is kept"
	listUnsorted        fault = "the list is unsorted"
	listForgets         fault = "the list forgets the last key"
	listRemembers       fault = "the list remembers what is gone"
	createFailsTwice    fault = "creating what is there fails"
	wantOverSteps       fault = "the want is stored, whatever the steps"
	updatesIgnored      fault = "updates are ignored"
	memberDeletesMissed fault = "member deletions are ignored"
	unsetKept           fault = "an unset option keeps its value"
	deleteFails         fault = "deleting the absent fails"
	leftoverStays       fault = "a removal leaves something"
	othersTouched       fault = "a removal takes keys of a similar name along"
	uidKept             fault = "the first UID stays"
	removalIsBlind      fault = "a removal does not look whose it is"
	halfHidden          fault = "half-made listeners are hidden and in the way"
	portErrorStops      fault = "a port error stops the ports after it"
	portErrorSilent     fault = "a port error is not returned"
	portGivenUp         fault = "a port that failed once is given up"
	contextIgnored      fault = "the context is ignored"
	keysRace            fault = "keys share a variable"
	runFails            fault = "run returns its context's error"
	runStops            fault = "run returns at once"
	changesUntold       fault = "changes are not told"
)

// catches says which sentence finds which faults.
func catches() map[string][]fault {
	return map[string][]fault{
		"traits are complete and constant":                        {traitsVary, traitsIncomplete},
		"observing the unknown is no error":                       {unknownFails},
		"observe and list write nothing":                          {observeCreates},
		"observe after apply equals want":                         {optionLost, addressLost},
		"an observation is a copy":                                {memoryShared},
		"list is sorted and holds every key":                      {listUnsorted, listForgets},
		"apply twice is once":                                     {createFailsTwice},
		"an empty plan writes nothing":                            {wantOverSteps},
		"every change arrives":                                    {updatesIgnored, memberDeletesMissed},
		"an option that is unset returns to its default":          {unsetKept},
		"deleting the absent is no error":                         {deleteFails},
		"a removal leaves nothing":                                {leftoverStays, listRemembers},
		"touches only what belongs to the plan's key":             {othersTouched},
		"a new UID of the same name is another owner":             {uidKept},
		"a removal planned for an old owner spares the new one":   {removalIsBlind},
		"a half-applied plan resumes":                             {halfHidden},
		"one port that cannot be served does not stop the others": {portErrorStops, portErrorSilent},
		"a port is served once it can be":                         {portGivenUp},
		"apply honours a cancelled context":                       {contextIgnored},
		"concurrent keys do not disturb one another":              {keysRace},
		"run returns nil when its context ends":                   {runFails},
		"a change that nobody applied is told":                    {changesUntold, runStops},
	}
}

func TestSuiteCatchesEveryFault(t *testing.T) {
	table := catches()
	for _, s := range providertest.Sentences() {
		faults := table[s.Text]
		if len(faults) == 0 {
			t.Errorf("no fault shows that %q can fail", s.Text)
		}
		delete(table, s.Text)
		for _, f := range faults {
			t.Run(string(f), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := record(t, func(r *recorder) { s.Prove(r, broken(f)) })
					if len(r.failures) == 0 {
						t.Errorf("%q holds though %s", s.Text, f)
					}
					t.Logf("%q: %s", s.Text, strings.Join(r.failures, "; "))
				})
			})
		}
	}
	for text := range table {
		t.Errorf("there is no sentence %q", text)
	}
}

// What stands between the backend and the suite breaks nothing by itself.
func TestSuiteFindsNothingWithoutFault(t *testing.T) {
	for _, s := range providertest.Sentences() {
		synctest.Test(t, func(t *testing.T) {
			if r := record(t, func(r *recorder) { s.Prove(r, broken(none)) }); len(r.failures) > 0 {
				t.Errorf("%q: %s", s.Text, strings.Join(r.failures, "; "))
			}
		})
	}
}

// recorder is a providertest.T that notes failures instead of failing.
type recorder struct {
	ctx      context.Context
	failures []string
	cleanups []func()
}

// record calls f in a goroutine of its own, which a fatal failure ends.
func record(t *testing.T, f func(*recorder)) *recorder {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &recorder{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	for _, c := range slices.Backward(r.cleanups) {
		c()
	}
	return r
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// faulty is a backend with one fault between it and its caller.
type faulty struct {
	*memory.Backend
	fault fault

	mu     sync.Mutex
	traits int
	gone   []model.Key
	uids   map[model.Key]string
	kept   map[model.Key]model.Balancer
	last   plan.Plan
	gaveUp map[model.Key][]model.PortError
}

func broken(f fault) providertest.Harness {
	b := memory.New(pools())
	p := &faulty{
		Backend: b, fault: f, uids: map[model.Key]string{},
		kept: map[model.Key]model.Balancer{}, gaveUp: map[model.Key][]model.PortError{},
	}
	h := harness(b, p)
	if f == memoryShared {
		h.Snapshot = p.keptText
	}
	return h
}

var errPlanted = errors.New("planted")

func (f *faulty) keptText() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := f.Text()
	for _, b := range f.kept {
		text += b.Text()
	}
	return text
}

func (f *faulty) Traits() provider.Traits {
	t := f.Backend.Traits()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.traits++
	switch f.fault {
	case traitsVary:
		t.ProxyMode = f.traits%2 == 0
	case traitsIncomplete:
		t.Protocols = nil
	default:
	}
	return t
}

func (f *faulty) Observe(ctx context.Context, key model.Key) (model.Observed, error) {
	o, err := f.Backend.Observe(ctx, key)
	if err != nil {
		return o, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.fault {
	case unknownFails:
		if !o.Exists {
			return o, errPlanted
		}
	case observeCreates:
		f.Change(key, func(o model.Observed) model.Observed {
			o.Exists, o.Balancer.Key = true, key
			return o
		})
	case leftoverStays:
		o.Exists = o.Exists || slices.Contains(f.gone, key)
	default:
		f.misread(key, &o)
	}
	return o, nil
}

// misread falsifies what was observed of a key.
func (f *faulty) misread(key model.Key, o *model.Observed) {
	switch f.fault {
	case optionLost:
		for i := range o.Balancer.Listeners {
			o.Balancer.Listeners[i].Pool.Affinity = 0
		}
	case addressLost:
		o.Balancer.Addresses = nil
	case uidKept:
		if first := f.uids[key]; first != "" && o.Exists {
			o.Balancer.UID = first
		}
		f.uids[key] = o.Balancer.UID
	case halfHidden:
		o.Balancer.Listeners = slices.DeleteFunc(o.Balancer.Listeners,
			func(l model.Listener) bool { return slices.Contains(o.Poolless, l.Port) })
		o.Poolless = nil
	default:
	}
}

func (f *faulty) List(ctx context.Context) ([]model.Key, error) {
	list, err := f.Backend.List(ctx)
	switch {
	case f.fault == listUnsorted:
		slices.Reverse(list)
	case f.fault == listForgets && len(list) > 2:
		list = list[:len(list)-1]
	case f.fault == listRemembers:
		list = append(list, f.gone...)
	}
	return list, err
}

func (f *faulty) Run(ctx context.Context, changed func(model.Key)) error {
	switch f.fault {
	case runFails:
		<-ctx.Done()
		return ctx.Err()
	case runStops:
		return nil
	case changesUntold:
		changed = func(model.Key) {}
	default:
	}
	return f.Backend.Run(ctx, changed)
}
