//go:build unix

package devcluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/devcluster"
	"github.com/fairlead-lb/fairlead/internal/devcluster/devclustertest"
)

const (
	account = "shop-system/shop"
	// patience bounds what a cluster does in a fraction of a second when the
	// machine is free.
	patience = 60 * time.Second
)

// manifests are a namespace, an account with one right, and a kind with an object of it.
const manifests = `
apiVersion: example.org/v1
kind: Shelf
metadata: {name: first, namespace: shop-system}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shelves.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: shelves, singular: shelf, kind: Shelf}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: shop, namespace: shop-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shop}
rules: [{apiGroups: [""], resources: [services], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: shop}
subjects: [{kind: ServiceAccount, name: shop, namespace: shop-system}]
---
apiVersion: v1
kind: Namespace
metadata: {name: shop-system}
`

const workload = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ipFamilyPolicy: RequireDualStack
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Node
metadata: {name: node1}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, labels: {app: web}}
spec: {nodeName: node1, containers: [{name: web, image: none}]}
`

const podStatus = `{"status":{"phase":"Running","podIP":"10.244.1.5","podIPs":[{"ip":"10.244.1.5"},{"ip":"fd00:10:244::5"}],` +
	`"conditions":[{"type":"Ready","status":"True"}]}}`

func TestCluster(t *testing.T) {
	dir := t.TempDir()
	options := devcluster.StartOptions{
		Binary:          devclustertest.Binary(t),
		Dir:             filepath.Join(dir, "a-folder", strings.Repeat("deep-", 20)), // longer than a socket's address
		Manifests:       []string{file(t, dir, "manifests.yaml", manifests)},
		ServiceAccounts: []string{account},
		AuditLog:        filepath.Join(dir, "audit.log"),
	}
	c := devclustertest.Start(t, options)

	t.Run("Manifests", func(t *testing.T) {
		if got := kubectl(t, c, "get", "shelves", "-n", "shop-system", "-o", "name"); got != "shelf.example.org/first\n" {
			t.Errorf("shelves: %q", got)
		}
	})
	t.Run("Version", func(t *testing.T) {
		var v struct{ ClientVersion, ServerVersion struct{ GitVersion string } }
		if err := json.Unmarshal([]byte(kubectl(t, c, "version", "-o", "json")), &v); err != nil {
			t.Fatal(err)
		}
		if v.ServerVersion.GitVersion != v.ClientVersion.GitVersion || !strings.HasPrefix(v.ServerVersion.GitVersion, "v1.") {
			t.Errorf("versions %+v", v)
		}
	})
	t.Run("Controllers", func(t *testing.T) { testControllers(t, c, file(t, dir, "workload.yaml", workload)) })
	t.Run("RightsAndAudit", func(t *testing.T) { testRights(t, c) })
	t.Run("Verified", func(t *testing.T) {
		if answer, err := http.Get(c.Server + "/readyz"); err == nil {
			answer.Body.Close()
			t.Error("a client without the cluster's CA trusted it")
		}
	})
	t.Run("OneAtATime", func(t *testing.T) {
		second, err := devcluster.Start(t.Context(), options)
		if err == nil {
			t.Fatal("two clusters run in one folder", second.Stop())
		}
		if !strings.Contains(err.Error(), "another devcluster runs there") {
			t.Errorf("error %v does not say why", err)
		}
	})
	t.Run("Restart", func(t *testing.T) {
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		c = devclustertest.Start(t, options)
		if got := kubectl(t, c, "get", "service", "web", "-o", "name"); got != "service/web\n" {
			t.Errorf("after a restart: %q", got)
		}
	})
	t.Run("Killed", func(t *testing.T) {
		c, err := devcluster.Start(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		kubectl(t, c, "create", "namespace", "last-words")
		kill(t, options.Dir)
		if err := c.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("a killed cluster ended with %v", err)
		}
		again := devclustertest.Start(t, options)
		if got := kubectl(t, again, "get", "namespace", "last-words", "-o", "name"); got != "namespace/last-words\n" {
			t.Errorf("after a kill: %q", got)
		}
	})
}

// kill ends the process that runs a cluster in dir, as the kernel does when
// memory is short.
func kill(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// testControllers has a pod found by a dual-stack Service, and the objects of a
// deleted Service and namespace cleaned up.
func testControllers(t *testing.T, c *devcluster.Cluster, workload string) {
	kubectl(t, c, "create", "namespace", "passing")
	eventually(t, "pods can be created in a new namespace", func() error {
		_, err := c.Kubectl(t.Context(), "apply", "-n", "passing", "-f", workload)
		return err
	})
	kubectl(t, c, "apply", "-f", workload)
	kubectl(t, c, "patch", "pod", "web-0", "--subresource=status", "--type=merge", "-p", podStatus)
	slices := []string{
		"get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o",
		`jsonpath={range .items[*]}{.addressType} {.endpoints[*].addresses[*]} {.endpoints[*].conditions.ready}{"\n"}{end}`,
	}
	eventually(t, "the pod is an endpoint in both families", func() error {
		got := kubectl(t, c, slices...)
		if !strings.Contains(got, "IPv4 10.244.1.5 true") || !strings.Contains(got, "IPv6 fd00:10:244::5 true") {
			return fmt.Errorf("endpoint slices: %q", got)
		}
		return nil
	})
	if got := kubectl(t, c, "get", "endpoints", "web", "-o", "jsonpath={.subsets[*].addresses[*].ip}"); got != "10.244.1.5" {
		t.Errorf("endpoints: %q", got)
	}
	kubectl(t, c, "delete", "pod", "web-0", "-n", "passing", "--force", "--grace-period=0")
	kubectl(t, c, "delete", "namespace", "passing", "--timeout="+patience.String()) // waits until it is gone
}

// testRights does as the account what it may and what it may not, and finds
// both in the audit log.
func testRights(t *testing.T, c *devcluster.Cluster) {
	kubeconfig, err := c.ServiceAccountKubeconfig(account)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ServiceAccountKubeconfig("shop-system/other"); err == nil {
		t.Error("an account that was not asked for has a kubeconfig")
	}
	kubectl(t, c, "--kubeconfig="+kubeconfig, "get", "services", "-A")
	if out, err := c.Kubectl(t.Context(), "--kubeconfig="+kubeconfig, "get", "pods", "-A"); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("the account could list pods: %q, %v", out, err)
	}
	want := map[string]int{"list services": 200, "list pods": 403}
	eventually(t, "both requests are in the audit log", func() error {
		got, err := requests(c.AuditLog)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("requests (-want +got):\n%s", diff)
		}
		return nil
	})
}

// requests reads an audit log: the code of the answer, by verb and resource.
func requests(path string) (map[string]int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var event struct {
			Verb           string
			Stage          string
			User           struct{ Username string }
			ObjectRef      *struct{ Resource string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, err
		}
		if event.User.Username != "system:serviceaccount:shop-system:shop" {
			return nil, fmt.Errorf("request of %s is in the log", event.User.Username)
		}
		if event.ObjectRef != nil && event.Stage == "ResponseComplete" { // the others are discovery
			found[event.Verb+" "+event.ObjectRef.Resource] = event.ResponseStatus.Code
		}
	}
	return found, nil
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	binary, dir := devclustertest.Binary(t), t.TempDir()
	cases := map[string]struct {
		reason  string
		options devcluster.StartOptions
		want    string
	}{
		"ServiceAccount": {
			reason:  "an account of that form cannot be meant",
			options: devcluster.StartOptions{ServiceAccounts: []string{"shop"}},
			want:    "NAMESPACE/NAME",
		},
		"AuditLog": {
			reason:  "an audit log without an account would stay empty",
			options: devcluster.StartOptions{AuditLog: filepath.Join(dir, "audit")},
			want:    "--service-account",
		},
		"Range": {
			reason:  "what kube-apiserver refuses is passed on",
			options: devcluster.StartOptions{ServiceClusterIPRange: "10.96.0.0"},
			want:    "service-cluster-ip-range",
		},
		"Manifest": {
			reason:  "a manifest is named with the place of its fault",
			options: devcluster.StartOptions{Manifests: []string{file(t, dir, "bad.yaml", "apiVersion: v1\nkind: Namespace\n")}},
			want:    "bad.yaml, document 1",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.options.Binary, tc.options.Dir = binary, t.TempDir()
			c, err := devcluster.Start(t.Context(), tc.options)
			if err == nil {
				t.Fatal("it started", tc.reason, c.Stop())
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q lacks %q: %s", err, tc.want, tc.reason)
			}
		})
	}
}

// orphanVariable makes TestOrphan start a cluster in the folder it names and wait.
const orphanVariable = "DEVCLUSTER_TEST_ORPHAN"

// TestOrphan kills the parent of a cluster and expects the cluster to end.
func TestOrphan(t *testing.T) {
	binary := devclustertest.Binary(t)
	if dir := os.Getenv(orphanVariable); dir != "" {
		if _, err := devcluster.Start(context.Background(), devcluster.StartOptions{Binary: binary, Dir: dir}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("started")
		select {} // until it is killed
	}
	dir := t.TempDir()
	parent := exec.Command(os.Args[0], "-test.run=^TestOrphan$", "-test.v")
	parent.Env = append(os.Environ(), orphanVariable+"="+dir)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	started := false
	for !started && lines.Scan() {
		started = lines.Text() == "started"
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := parent.Wait(); err == nil || !started {
		t.Fatalf("the parent ended with %v, started %v", err, started)
	}
	eventually(t, "the folder is free", func() error {
		c, err := devcluster.Start(t.Context(), devcluster.StartOptions{Binary: binary, Dir: dir})
		if err != nil {
			return err
		}
		return c.Stop()
	})
}

func TestStartGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := devcluster.Start(ctx, devcluster.StartOptions{Binary: devclustertest.Binary(t), Dir: t.TempDir()})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the start was cancelled", err)
	}
}

func file(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func kubectl(t *testing.T, c *devcluster.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually fails the test if what does not come true in time.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.After(patience)
	for {
		last := check()
		if last == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("waiting until %s: %v", what, last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
