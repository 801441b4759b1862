package plan_test

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
)

// TestMain declares -update, which must exist before the arguments are parsed.
func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the golden files instead of comparing with them")
	flag.Parse()
	os.Exit(m.Run())
}

func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// web is the balancer that most golden files start from.
func web() model.Balancer {
	return model.Balancer{
		Key: model.Key{Namespace: "shop", Name: "web"}, UID: "uid-1", Addresses: addrs("127.77.0.4"),
		Listeners: []model.Listener{
			{Port: model.Port{Protocol: model.TCP, Number: 80}, Name: "http", Pool: model.Pool{Members: members("10.0.0.7:8080", "10.0.0.8:8080")}},
			{
				Port: model.Port{Protocol: model.TCP, Number: 443}, Name: "https",
				Timeouts: model.Timeouts{ClientData: 50 * time.Second},
				Pool: model.Pool{
					ProxyProtocol: model.ProxyV2, Members: members("10.0.0.7:8443", "10.0.0.8:8443"),
					Monitor: model.Monitor{Type: "TCP", Delay: 5 * time.Second, Timeout: 3 * time.Second, MaxRetries: 2, MaxRetriesDown: 3},
				},
			},
		},
	}
}

func members(at ...string) []model.Member {
	var list []model.Member
	for i, a := range at {
		list = append(list, model.Member{Address: netip.MustParseAddrPort(a), Name: "web-" + string(rune('1'+i)), Weight: 1})
	}
	return list
}

// changed returns web with a change.
func changed(change func(*model.Balancer)) model.Balancer {
	b := web().Normalize()
	change(&b)
	return b
}

func there(b model.Balancer) model.Observed { return model.Observed{Exists: true, Balancer: b} }

func goldenCases() map[string]struct {
	reason string
	plan   plan.Plan
} {
	limit := 100
	return map[string]struct {
		reason string
		plan   plan.Plan
	}{
		"create":                {"everything is made, parents first", plan.Diff(web(), model.Observed{})},
		"remove":                {"everything goes, children first", plan.Remove(web().Key, there(web()))},
		"same":                  {"a steady state says that there is nothing to do", plan.Diff(web(), there(web()))},
		"remove-absent":         {"nothing is there, nothing goes", plan.Remove(web().Key, model.Observed{})},
		"remove-leftovers":      {"a part that was left behind is removed as well", plan.Remove(web().Key, model.Observed{Exists: true})},
		"create-over-leftovers": {"what was left behind is no balancer", plan.Diff(web(), model.Observed{Exists: true})},
		"settings": {"each setting has its words; unset means default again", plan.Diff(changed(func(b *model.Balancer) {
			b.Listeners[0].AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}
			b.Listeners[0].ConnectionLimit = &limit
			b.Listeners[0].Pool.Algorithm = model.LeastConnections
			b.Listeners[0].Pool.Affinity = 3 * time.Hour
			b.Listeners[0].Pool.Monitor = model.Monitor{Type: "HTTP", Path: "/healthz"}
			b.Listeners[1].Timeouts.ClientData = 70 * time.Second
			b.Listeners[1].Pool.ProxyProtocol = model.ProxyNone
			b.Listeners[1].Pool.Monitor.Delay = time.Second
		}), there(web()))},
		"unset": {"an option that is taken away returns to the default", plan.Diff(changed(func(b *model.Balancer) {
			b.Listeners[1].Timeouts = model.Timeouts{}
			b.Listeners[1].Pool.Monitor = model.Monitor{}
		}), there(web()))},
		"members": {"new ones first, then weights, then what is gone, by its old name", plan.Diff(changed(func(b *model.Balancer) {
			b.Listeners[0].Pool.Members = []model.Member{
				{Address: netip.MustParseAddrPort("10.0.0.7:8080"), Name: "web-1", Weight: 0},
				{Address: netip.MustParseAddrPort("10.0.0.9:8080"), Name: "web-9", Weight: 3},
			}
		}), there(web()))},
		"ports": {"a port that changes its protocol is another listener, made before the old one goes", plan.Diff(changed(func(b *model.Balancer) {
			b.Listeners[1].Port.Protocol = model.UDP
		}), there(web()))},
		"addresses": {"addresses are the load balancer's, in their order", plan.Diff(changed(func(b *model.Balancer) {
			b.Addresses = addrs("fd00::4", "127.77.0.4")
		}), there(web()))},
		"address-of-the-backend": {"without wanted addresses the backend's choice stays", plan.Diff(changed(func(b *model.Balancer) {
			b.Addresses = nil
			b.Listeners = b.Listeners[:1]
		}), there(web()))},
		"other-owner": {"a new object of the same name inherits nothing", plan.Diff(changed(func(b *model.Balancer) {
			b.UID = "uid-2"
			b.Listeners = b.Listeners[:1]
		}), there(changed(func(b *model.Balancer) { b.Listeners = b.Listeners[:1] })))},
		"unsigned": {"a balancer nobody signed is ours, without a write", plan.Diff(web(),
			there(changed(func(b *model.Balancer) { b.UID = "" })))},
		"poolless": {"a listener whose pool is lost gets a new one, with all its parts", plan.Diff(web(),
			model.Observed{Exists: true, Balancer: web(), Poolless: []model.Port{{Protocol: model.TCP, Number: 443}}})},
		"remove-poolless": {"a pool that is lost is not deleted", plan.Remove(web().Key,
			model.Observed{Exists: true, Balancer: web(), Poolless: []model.Port{{Protocol: model.TCP, Number: 443}}})},
	}
}

func TestText(t *testing.T) {
	for name, tc := range goldenCases() {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".txt")
			got := "# " + tc.reason + "\n" + tc.plan.Text()
			if updating() {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// A golden file that no case writes any more proves nothing.
func TestGoldenFilesAreUsed(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("listing golden files: %v, %d files", err, len(files))
	}
	known := goldenCases()
	for _, f := range files {
		if _, ok := known[strings.TrimSuffix(filepath.Base(f), ".txt")]; !ok {
			t.Errorf("%s belongs to no case", f)
		}
	}
}

func TestSummary(t *testing.T) {
	p := plan.Plan{Steps: []plan.Step{{Verb: plan.Create}, {Verb: plan.Create}, {Verb: plan.Update}, {Verb: plan.Delete}}}
	if got, want := p.Summary(), "2 to create, 1 to change, 1 to delete"; got != want {
		t.Errorf("Summary() = %q, want %q", got, want)
	}
	if got, want := (plan.Plan{}).Summary(), "nothing to do"; got != want {
		t.Errorf("Summary() of an empty plan = %q, want %q", got, want)
	}
}
