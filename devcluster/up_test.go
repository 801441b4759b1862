package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fairlead-lb/fairlead/devcluster/internal/server"
)

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	dir, err := os.Getwd() // as filepath.Abs sees it
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		args   []string
		want   server.Config
		err    string
	}{
		"Paths": {
			reason: "the cluster's folder becomes the working directory, so paths are resolved first",
			args:   []string{"--dir=d", "--manifests=m", "--manifests=/n", "--service-account=a/b", "--audit-log=l"},
			want: server.Config{
				Dir:       filepath.Join(dir, "d"),
				Manifests: []string{filepath.Join(dir, "m"), "/n"},
				Accounts:  []server.Account{{Namespace: "a", Name: "b"}},
				AuditLog:  filepath.Join(dir, "l"),
			},
		},
		"Unverifiable": {
			reason: "a certificate cannot be for every address",
			args:   []string{"--dir=d", "--listen=0.0.0.0:0"},
			err:    "0.0.0.0",
		},
		"NoPort": {
			reason: "an address alone leaves the port open",
			args:   []string{"--dir=d", "--listen=127.0.0.1"},
			err:    "--listen",
		},
		"Account": {
			reason: "an account has a namespace",
			args:   []string{"--dir=d", "--service-account=b"},
			err:    "--service-account",
		},
		"AuditOfNoOne": {
			reason: "the log would stay empty, and an empty log looks like good news",
			args:   []string{"--dir=d", "--audit-log=l"},
			err:    "--audit-log",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var f upFlags
			if err := f.flags().Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			got, err := f.config()
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v lacks %q: %s", err, tc.err, tc.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !got.Listen.Addr().IsLoopback() {
				t.Errorf("listens on %s unless told otherwise", got.Listen)
			}
			got.Listen, got.ServiceClusterIPRange = netip.AddrPort{}, ""
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
				t.Errorf("configuration (-want +got): %s\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCopyFile(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(from, to); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(to)
	if err != nil || string(data) != "text" {
		t.Errorf("copied %q, %v", data, err)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want that its owner alone reads it", info.Mode(), err)
	}
}
