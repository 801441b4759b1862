package cli

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/api/config"
)

func TestExplain(t *testing.T) {
	o, _ := annotation.Lookup("keep-address")
	for _, arg := range []string{"keep-address", "fairlead.dev/keep-address", "loadbalancer.openstack.org/keep-floatingip"} {
		if got := run(t, nil, "", "explain", arg); got != (ran{out: annotation.Explain(o)}) {
			t.Errorf("explain %s: %+v", arg, got)
		}
	}
	address, _ := annotation.Lookup("address")
	if got := run(t, nil, "", "explain", "spec.loadBalancerIP"); got != (ran{out: annotation.Explain(address)}) {
		t.Errorf("explain spec.loadBalancerIP: %+v", got)
	}
	if got := run(t, nil, "", "explain"); got != (ran{out: annotation.ExplainAll()}) {
		t.Errorf("explain: %+v", got)
	}
	for arg, want := range map[string]string{
		"proxy-protokol": "error: nobody knows the option \"proxy-protokol\"; did you mean \"proxy-protocol\"?\n",
		"zzz":            "error: nobody knows the option \"zzz\"; \"fairlead explain\" lists those that are known\n",
	} {
		if got := run(t, nil, "", "explain", arg); got != (ran{err: want, code: ExitFailed}) {
			t.Errorf("explain %s: %+v", arg, got)
		}
	}
}

func TestConfig(t *testing.T) {
	if got := run(t, nil, "", "config", "reference"); got != (ran{out: config.Reference()}) {
		t.Errorf("config reference: %+v", got)
	}
	if got := run(t, nil, config.Reference(), "config", "check", "-f", "-"); got != (ran{out: "✓ standard input is a valid configuration\n"}) {
		t.Errorf("config check of the reference: %+v", got)
	}
	file := filepath.Join(t.TempDir(), "fairlead.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: fairlead.dev/v1alpha1\nkind: Configuration\nmoed: apply\nworkers: many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	byFlag, byName := run(t, nil, "", "config", "check", "-f", file), run(t, nil, "", "config", "check", file)
	if byFlag.code != ExitFailed || byFlag.err != "2 problems\n" || byFlag != byName {
		t.Errorf("config check of a bad file: %+v, %+v", byFlag, byName)
	}
	if got := run(t, nil, "", "config", "check"); got.code != ExitUsage {
		t.Errorf("config check without a file: %+v", got)
	}
	if got := run(t, nil, "", "config", "check", "-f", file+".none"); got.code != ExitFailed || got.err == "" {
		t.Errorf("config check of an absent file: %+v", got)
	}
}

func TestVersion(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.1.0"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123abc"}, {Key: "vcs.modified", Value: "true"},
	}}
	want := "fairlead v0.1.0\nrevision 0123abc, with changes\nbuilt with go1.26.0 for linux/amd64\n"
	if got := versionText(info, "linux/amd64"); got != want {
		t.Errorf("version: %q", got)
	}
	if got := run(t, nil, "", "version"); got.code != ExitOK || got.out == "" {
		t.Errorf("version: %+v", got)
	}
}
