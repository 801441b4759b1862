// Package devclustertest gives tests a development cluster. A test that needs
// one and has none is skipped loudly, or builds it where the environment
// promises it; see package testenv. It never leaves a cluster running.
package devclustertest

import (
	"os"
	"testing"

	"github.com/fairlead-lb/fairlead/internal/devcluster"
	"github.com/fairlead-lb/fairlead/internal/testenv"
)

// Binary returns the path of the development cluster's binary. When it is not
// built the test is skipped, or, with testenv.RequireVariable set to 1, waits
// for the build.
func Binary(t testing.TB) string {
	t.Helper()
	path, built, err := devcluster.Find(t.Context(), devcluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !built && os.Getenv(testenv.RequireVariable) == "1" {
		if path, err = devcluster.Build(t.Context(), devcluster.Options{Out: os.Stderr}); err != nil {
			t.Fatal(err)
		}
		built = true
	}
	testenv.Require(t, "the development cluster (go run ./internal/devcluster/build makes it, once)", built)
	return path
}

// Start runs a cluster for as long as the test. An empty o.Binary or o.Dir is
// filled in: with Binary's, and with a folder that is removed afterwards.
func Start(t testing.TB, o devcluster.StartOptions) *devcluster.Cluster {
	t.Helper()
	if o.Binary == "" {
		o.Binary = Binary(t)
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	cluster, err := devcluster.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}
