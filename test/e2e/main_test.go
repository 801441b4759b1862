//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/devcluster"
	"github.com/fairlead-lb/fairlead/internal/testenv"
)

// suiteVariable hands what TestMain made to the tests of this process.
const suiteVariable = "FAIRLEAD_E2E_SUITE"

// account is the controller's, as the manifests name it.
const account = "fairlead-system/fairlead-controller"

// suite is what all tests of a run share.
type suite struct {
	// Program is the built fairlead.
	Program string
	// Admin and Account are kubeconfigs: with all rights, and with the shipped ones.
	Admin, Account string
	// AuditLog holds every request of the account.
	AuditLog string
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	// Cases wait much and compute little.
	if err := flag.Set("test.parallel", "16"); err != nil {
		return complain(err)
	}
	if f := flag.Lookup("test.list"); f != nil && f.Value.String() != "" {
		return m.Run()
	}
	binary, err := clusterBinary()
	if err != nil {
		return complain(err)
	}
	if binary == "" {
		return m.Run() // each test that needs the cluster says that it is skipped
	}
	dir, err := os.MkdirTemp("", "fairlead-e2e-")
	if err != nil {
		return complain(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := noteSources(); err != nil {
		return complain(err)
	}
	s, stop, err := startSuite(dir, binary)
	if err != nil {
		return complain(err)
	}
	code := m.Run()
	if err := checkAudit(s.AuditLog, ranEverything()); err != nil {
		code = max(code, complain(err))
	}
	if err := stop(); err != nil {
		code = max(code, complain(err))
	}
	return code
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "end-to-end tests:", err)
	return 1
}

// ranEverything tells whether no flag left tests out.
func ranEverything() bool {
	for _, name := range []string{"test.run", "test.skip"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return true
}

// clusterBinary returns the development cluster's program, or nothing where it
// is neither built nor promised.
func clusterBinary() (string, error) {
	ctx := context.Background()
	path, built, err := devcluster.Find(ctx, devcluster.Options{})
	switch {
	case err != nil:
		return "", err
	case built:
		return path, nil
	case os.Getenv(testenv.RequireVariable) == "1":
		return devcluster.Build(ctx, devcluster.Options{Out: os.Stderr})
	}
	return "", nil
}

// noteSources looks at every source file. The program that is tried is built by
// a child process, which the go command knows nothing about; files that a test
// looked at it does, so a result is not taken from its cache after a change.
func noteSources() error {
	for _, root := range []string{"../../api", "../../cmd", "../../deploy", "../../internal"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				_, err = os.Stat(path)
			}
			if errors.Is(err, fs.ErrNotExist) { // an editor's file that came and went
				return nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("reading sources: %w", err)
		}
	}
	return nil
}

// startSuite builds the program and starts the cluster, at the same time.
func startSuite(dir, binary string) (suite, func() error, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s := suite{Program: filepath.Join(dir, "fairlead"), AuditLog: filepath.Join(dir, "audit.log")}
	building := make(chan error, 1)
	go func() {
		out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", s.Program, "../../cmd/fairlead").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("building fairlead: %w: %s", err, out)
		}
		building <- err
	}()
	cluster, err := devcluster.Start(ctx, devcluster.StartOptions{
		Binary: binary, Dir: filepath.Join(dir, "cluster"), AuditLog: s.AuditLog,
		Manifests:       []string{"../../deploy/crds", "../../deploy/rbac"},
		ServiceAccounts: []string{account},
	})
	if failed := errors.Join(<-building, err); failed != nil {
		if cluster != nil {
			failed = errors.Join(failed, cluster.Stop())
		}
		return suite{}, nil, failed
	}
	s.Admin, s.AuditLog = cluster.AdminKubeconfig, cluster.AuditLog
	if s.Account, err = cluster.ServiceAccountKubeconfig(account); err != nil {
		return suite{}, nil, errors.Join(err, cluster.Stop())
	}
	text, err := json.Marshal(s)
	if err != nil {
		return suite{}, nil, errors.Join(err, cluster.Stop())
	}
	return s, cluster.Stop, os.Setenv(suiteVariable, string(text))
}

// theSuite returns what TestMain made. Without it the test is skipped, loudly.
func theSuite(t *testing.T) suite {
	t.Helper()
	text := os.Getenv(suiteVariable)
	testenv.Require(t, "the development cluster (go run ./internal/devcluster/build makes it, once)", text != "")
	var s suite
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}
