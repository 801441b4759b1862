package memory_test

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/provider"
	"github.com/fairlead-lb/fairlead/internal/provider/memory"
	"github.com/fairlead-lb/fairlead/internal/provider/providertest"
)

func TestContract(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		config memory.Config
	}{
		"FromPools":   {"the controller chooses addresses", pools()},
		"FromBackend": {"the backend chooses addresses", chooser()},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range providertest.Sentences() {
				t.Run(s.Text, func(t *testing.T) {
					// In a bubble, patience costs nothing.
					synctest.Test(t, func(t *testing.T) {
						b := memory.New(tc.config)
						s.Prove(t, harness(b, b))
					})
				})
			}
		})
	}
}

func traits(from provider.AddressSource) provider.Traits {
	return provider.Traits{Name: "memory", Addresses: from, Protocols: []model.Protocol{model.TCP, model.UDP}}
}

func pools() memory.Config { return memory.Config{Traits: traits(provider.FromPools)} }

func chooser() memory.Config {
	return memory.Config{Traits: traits(provider.FromBackend), Range: netip.MustParsePrefix("192.0.2.8/29")}
}

// web is a balancer with a port, a monitor and a member.
func web() model.Balancer {
	return model.Balancer{
		Key: model.Key{Namespace: "shop", Name: "web"}, UID: "uid-1",
		Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")},
		Listeners: []model.Listener{{
			Port: model.Port{Protocol: model.TCP, Number: 80},
			Pool: model.Pool{
				Monitor: model.Monitor{Type: "TCP"},
				Members: []model.Member{{Address: netip.MustParseAddrPort("10.0.0.7:8080"), Weight: 1}},
			},
		}},
	}
}

func observe(t *testing.T, b *memory.Backend) model.Observed {
	t.Helper()
	o, err := b.Observe(t.Context(), web().Key)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestFaultsFailInTheirOrder(t *testing.T) {
	b := memory.New(pools())
	first, second := errors.New("first"), errors.New("second")
	b.FailNext(2, first)
	b.FailAfter(3, second)
	p := plan.Diff(web(), model.Observed{})
	for i, want := range []error{first, first, second, nil} {
		if _, err := b.Apply(t.Context(), p); !errors.Is(err, want) {
			t.Errorf("apply %d returns %v, want %v", i, err, want)
		}
	}
	if got, want := b.Writes(), 3+len(p.Steps); got != want {
		t.Errorf("%d steps were carried out, want %d", got, want)
	}
}

func TestEveryCutOfAPlanResumes(t *testing.T) {
	whole := plan.Diff(web(), model.Observed{})
	for k := range len(whole.Steps) + 1 {
		b := memory.New(pools())
		b.FailAfter(k, errors.New("cut"))
		if _, err := b.Apply(t.Context(), whole); err == nil {
			t.Fatalf("the apply that was to stop after %d steps returns no error", k)
		}
		rest := plan.Diff(web(), observe(t, b))
		if got, want := len(rest.Steps), len(whole.Steps)-k; got != want {
			t.Errorf("after %d steps there remain %d, want %d:\n%s", k, got, want, rest.Text())
		}
	}
}

func TestHealthTellsWhatIsWrong(t *testing.T) {
	b := memory.New(pools())
	if _, err := b.Apply(t.Context(), plan.Diff(web(), model.Observed{})); err != nil {
		t.Fatal(err)
	}
	member := web().Listeners[0].Pool.Members[0].Address
	port := web().Listeners[0].Port
	b.SetDown(member, true)
	release := b.Block(web().Key, port)
	h := observe(t, b).Health
	if len(h) != 1 || h[0].Error.Reason != memory.ReasonPortBlocked || h[0].Members[0].State != model.MemberDown {
		t.Errorf("health is %+v, want a blocked port with a member that is down", h)
	}
	b.SetDown(member, false)
	release()
	h = observe(t, b).Health
	if len(h) != 1 || h[0].Error.Reason != "" || h[0].Members[0].State != model.MemberUp {
		t.Errorf("health is %+v, want a port that is served by a member that is up", h)
	}
}

func TestChangeIsNoWrite(t *testing.T) {
	b := memory.New(pools())
	if _, err := b.Apply(t.Context(), plan.Diff(web(), model.Observed{})); err != nil {
		t.Fatal(err)
	}
	before := b.Writes()
	b.Change(web().Key, func(o model.Observed) model.Observed {
		o.Balancer.Listeners = nil
		return o
	})
	if p := plan.Diff(web(), observe(t, b)); len(p.Steps) != 4 || b.Writes() != before {
		t.Errorf("%d writes, want %d, and the lost listener with its parts is missing:\n%s", b.Writes(), before, p.Text())
	}
	b.Change(web().Key, func(model.Observed) model.Observed { return model.Observed{} })
	if diff := cmp.Diff("", b.Text()); diff != "" {
		t.Errorf("a balancer that someone deleted is still held:\n%s", diff)
	}
}

func TestAddressesOfTheBackend(t *testing.T) {
	b := memory.New(chooser())
	want := web()
	want.Addresses = nil
	for i, text := range []string{"192.0.2.8", "192.0.2.9"} {
		want.Key.Name = []string{"web", "web-2"}[i]
		if _, err := b.Apply(t.Context(), plan.Diff(want, model.Observed{})); err != nil {
			t.Fatal(err)
		}
		o, err := b.Observe(t.Context(), want.Key)
		if err != nil || len(o.Balancer.Addresses) != 1 || o.Balancer.Addresses[0] != netip.MustParseAddr(text) {
			t.Errorf("%s has addresses %v (%v), want %s", want.Key, o.Balancer.Addresses, err, text)
		}
		if p := plan.Diff(want, o); !p.Empty() {
			t.Errorf("the backend's own choice is undone:\n%s", p.Text())
		}
	}
}
