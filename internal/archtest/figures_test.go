package archtest

import (
	"go/ast"
	"go/types"
	"os"
	"strings"
	"testing"

	"github.com/fairlead-lb/fairlead/api/config"
)

// TestFiguresOnPagesAreThoseOfTheSources: a figure on a page is that of a
// constant, so that who changes the constant is led to the sentence.
func TestFiguresOnPagesAreThoseOfTheSources(t *testing.T) {
	cases := map[string]struct {
		name  string // folder.constant
		value string
		page  string
		says  string
	}{
		"open files of a connection": {"internal/proxy.filesPerConnection", "3", "docs/local.md", "three open files each"},
		"open files of a flow":       {"internal/proxy.filesPerFlow", "1", "docs/local.md", "and one open file each"},
		"flows":                      {"internal/proxy.FlowLimit", "10_000", "docs/local.md", "UDP flows of one port | 10,000"},
		"affinity":                   {"internal/proxy.affinityEntries", "100_000", "docs/local.md", "remembers for one port | 100,000"},
		"tries":                      {"internal/proxy.connectTries", "3", "docs/local.md", "tried for one connection | 3"},
		"time for tries":             {"internal/proxy.connectBudget", "2", "docs/local.md", "within twice [`timeout-member-connect`]"},
		"warnings":                   {"internal/controller.warnAgain", "30 * time.Minute", "docs/conditions.md", "every 30 minutes"},
		"rewrites":                   {"internal/controller.rivalRewrites", "3", "docs/conditions.md", "rewrote the status three times"},
		"time of rewrites":           {"internal/controller.rivalWithin", "time.Minute", "docs/conditions.md", "within a minute"},
		"truce":                      {"internal/controller.rivalTruce", "10 * time.Minute", "docs/conditions.md", "left alone for ten minutes"},
	}
	found, pages := constants(read(t)), readPages(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if found[tc.name] != tc.value {
				t.Errorf("%s is %q, not %q; correct %s, which says %q", tc.name, found[tc.name], tc.value, tc.page, tc.says)
			}
			if !strings.Contains(pages[tc.page], tc.says) {
				t.Errorf("%s no longer says %q", tc.page, tc.says)
			}
		})
	}
}

// constants returns the values, as written, of constants and of fields that are
// set to a literal, by folder and name.
func constants(t Tree) map[string]string {
	out := map[string]string{}
	for _, p := range t.Packages {
		for _, f := range p.Files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ValueSpec:
					for i := range min(len(n.Names), len(n.Values)) {
						out[p.Dir+"."+n.Names[i].Name] = types.ExprString(n.Values[i])
					}
				case *ast.AssignStmt:
					field, ok := n.Lhs[0].(*ast.SelectorExpr)
					if lit, plain := n.Rhs[0].(*ast.BasicLit); ok && plain {
						out[p.Dir+"."+field.Sel.Name] = lit.Value
					}
				}
				return true
			})
		}
	}
	return out
}

// TestDefaultsOnPagesAreThoseOfTheConfiguration: outside of the generated
// page, too, a default is what it is.
func TestDefaultsOnPagesAreThoseOfTheConfiguration(t *testing.T) {
	c := config.New()
	cases := map[string]struct {
		value string
		page  string
		says  string
	}{
		"10m0s":         {c.Addresses.ReleaseDelay.String(), "docs/local.md", "`addresses.releaseDelay` (10 minutes)"},
		"30s":           {c.Shutdown.Drain.String(), "docs/local.md", "`shutdown.drain` (30 s)"},
		"15s":           {c.LeaderElection.LeaseDuration.String(), "docs/local.md", "`leaderElection.leaseDuration` (15 s)"},
		"127.77.0.0/16": {strings.Join(c.Local.Pools, ","), "docs/local.md", "The pool is `127.77.0.0/16`"},
		":8443":         {c.Metrics.Address, "docs/install.md", "served at port 8443 over TLS"},
		":8081":         {c.Health.Address, "docs/troubleshooting.md", "http://127.0.0.1:8081/readyz"},
	}
	for want, tc := range cases {
		t.Run(want, func(t *testing.T) {
			page, err := os.ReadFile(root + "/" + tc.page)
			if err != nil {
				t.Fatal(err)
			}
			if tc.value != want || !strings.Contains(string(page), tc.says) {
				t.Errorf("the default is %q, and %s is to say %q", tc.value, tc.page, tc.says)
			}
		})
	}
}
