package local_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/provider/local"
	"github.com/fairlead-lb/fairlead/internal/provider/providertest"
)

// The contract holds for what the provider itself does.
func TestContractOverPlane(t *testing.T) {
	for _, s := range providertest.Sentences() {
		t.Run(s.Text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPlane()
				s.Prove(t, providertest.Harness{
					Provider:  local.New(p),
					Snapshot:  p.text,
					Addresses: loopback(),
					Ports:     []uint16{80, 443, 5353},
					Members:   []netip.AddrPort{netip.MustParseAddrPort("10.0.0.7:80"), netip.MustParseAddrPort("10.0.0.8:80")},
					Block:     p.block,
					Disturb:   func(b model.Balancer) { p.changed <- b.Key },
					Patience:  time.Minute,
				})
			})
		})
	}
}

// loopback returns addresses that only this package's tests use.
func loopback() []netip.Addr {
	var list []netip.Addr
	for _, a := range []string{"127.77.1.1", "127.77.1.2", "127.77.1.3", "127.77.1.4"} {
		list = append(list, netip.MustParseAddr(a))
	}
	return list
}

// web is a balancer with one port and one member.
func web(m model.Monitor) model.Balancer {
	return model.Balancer{
		Key: model.Key{Namespace: "shop", Name: "web"}, UID: "uid-1", Addresses: loopback()[:1],
		Listeners: []model.Listener{{
			Port: model.Port{Protocol: model.TCP, Number: 80},
			Pool: model.Pool{Monitor: m, Members: []model.Member{{Address: netip.MustParseAddrPort("10.0.0.7:80"), Weight: 1}}},
		}},
	}
}

func apply(t *testing.T, l *local.Provider, p plan.Plan) {
	t.Helper()
	if failed, err := l.Apply(t.Context(), p); err != nil || len(failed) > 0 {
		t.Fatalf("Apply returns %v and port errors %v", err, failed)
	}
}

func observe(t *testing.T, l *local.Provider) model.Observed {
	t.Helper()
	o, err := l.Observe(t.Context(), web(model.Monitor{}).Key)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Defaults are the data plane's: what it is given and what is observed are
// what was asked for, so that nothing filled in shows as a difference.
func TestNothingIsFilledIn(t *testing.T) {
	for name, tc := range map[string]struct {
		reason  string
		monitor model.Monitor
	}{
		"NoMonitor":   {"nobody who asks for no check gets one", model.Monitor{}},
		"OpenNumbers": {"what is left open stays open", model.Monitor{Type: "TCP"}},
		"Own":         {"what is asked for stays", model.Monitor{Type: "HTTP", Path: "/", Delay: time.Minute, MaxRetries: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane()
			l := local.New(p)
			want := web(tc.monitor)
			apply(t, l, plan.Diff(want, model.Observed{}))
			if diff := cmp.Diff(want.Text(), p.State(want.Key).Balancer.Text()); diff != "" {
				t.Errorf("%s (-asked +given):\n%s", tc.reason, diff)
			}
			if rest := plan.Diff(want, observe(t, l)); !rest.Empty() {
				t.Errorf("%s, and yet there remain\n%s", tc.reason, rest.Text())
			}
		})
	}
}

func TestOnePlanIsOneSet(t *testing.T) {
	p := newPlane()
	l := local.New(p)
	apply(t, l, plan.Diff(web(model.Monitor{}), model.Observed{}))
	next := web(model.Monitor{})
	next.UID = "uid-2"
	apply(t, l, plan.Diff(next, observe(t, l)))
	if p.calls != 2 {
		t.Errorf("the data plane was set %d times by two plans, so that it was seen half-made", p.calls)
	}
	if got := p.sets[next.Key].UID; got != "uid-2" {
		t.Errorf("the data plane serves for %q, want the new owner", got)
	}
}

func TestListenerWithoutPoolIsNotServed(t *testing.T) {
	p := newPlane()
	l := local.New(p)
	half := plan.Diff(web(model.Monitor{}), model.Observed{})
	half.Steps = half.Steps[:2]
	apply(t, l, half)
	if s := p.text(); s != "" {
		t.Errorf("a listener without a pool is served:\n%s", s)
	}
	if o := observe(t, l); !o.Exists || len(o.Poolless) != 1 {
		t.Errorf("observed is %+v, want a listener without a pool", o)
	}
}

func TestHealthIsTheDataPlanes(t *testing.T) {
	p := newPlane()
	l := local.New(p)
	port := web(model.Monitor{}).Listeners[0].Port
	release := p.block(model.Balancer{}, port)
	defer release()
	failed, err := l.Apply(t.Context(), plan.Diff(web(model.Monitor{}), model.Observed{}))
	if err != nil || len(failed) != 1 || failed[0].Port != port {
		t.Fatalf("Apply returns %v and port errors %v, want one of %s", err, failed, port)
	}
	o := observe(t, l)
	if len(o.Health) != 1 || o.Health[0].Error != failed[0] {
		t.Errorf("health is %+v, want the port error %+v", o.Health, failed[0])
	}
	if rest := plan.Diff(web(model.Monitor{}), o); !rest.Empty() {
		t.Errorf("the data plane tries the port again by itself, and yet there remain\n%s", rest.Text())
	}
}

func TestRunReturns(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		reason string
		ends   error
		cancel bool
		want   func(error) bool
	}{
		"Ended":    {"the context's end is no error", nil, true, func(err error) bool { return err == nil }},
		"Broken":   {"the data plane's error is kept", broken, false, func(err error) bool { return errors.Is(err, broken) }},
		"Vanished": {"a data plane that ends too early is an error", nil, false, func(err error) bool { return err != nil }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.cancel {
				cancel()
			}
			p.ends <- tc.ends
			if err := local.New(p).Run(ctx, func(model.Key) {}); !tc.want(err) {
				t.Errorf("%s: Run returns %v", tc.reason, err)
			}
		})
	}
}
