package deploy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fairlead-lb/fairlead/internal/devcluster"
	"github.com/fairlead-lb/fairlead/internal/devcluster/devclustertest"
)

const account = "fairlead-system/fairlead-controller"

// TestOnAnAPIServer asks a real API server about what only it can evaluate: the
// rights, the expressions of the admission policy and those of the CRDs.
func TestOnAnAPIServer(t *testing.T) {
	cluster := devclustertest.Start(t, devcluster.StartOptions{
		Manifests:       []string{"crds", "rbac", "testdata/services.yaml"},
		ServiceAccounts: []string{account},
	})
	t.Run("policy", func(t *testing.T) { testPolicy(t, cluster) })
	t.Run("records", func(t *testing.T) { testRecords(t, cluster) })
}

// patcher patches a Service as Fairlead's account, and leaves no trace: the
// server admits the patch and does not store it.
func patcher(t *testing.T, c *devcluster.Cluster) func(service, subresource, patch string) error {
	t.Helper()
	kubeconfig, err := c.ServiceAccountKubeconfig(account)
	if err != nil {
		t.Fatal(err)
	}
	restConfig, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		t.Fatal(err)
	}
	return func(service, subresource, patch string) error {
		// Not kubectl, which reads what it patches and needs the right to.
		var subresources []string
		if subresource != "" {
			subresources = []string{subresource}
		}
		_, err := client.CoreV1().Services("shop").Patch(t.Context(), service, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
		return err
	}
}

func testPolicy(t *testing.T, c *devcluster.Cluster) {
	const (
		theirs     = `{"type":"example.com/Seen","status":"True","reason":"Seen","message":"seen","lastTransitionTime":"2026-12-01T00:00:00Z"}`
		theirsLess = `{"type":"example.com/Seen","status":"False","reason":"Seen","message":"seen","lastTransitionTime":"2026-12-01T00:00:00Z"}`
		ours       = `{"type":"fairlead.dev/Accepted","status":"True","reason":"Accepted","message":"accepted","lastTransitionTime":"2026-12-01T00:00:00Z"}`
		ports      = `{"type":"LoadBalancerPortsError","status":"True","reason":"PortInUse","message":"in use","lastTransitionTime":"2026-12-01T00:00:00Z"}`
		address    = `{"status":{"loadBalancer":{"ingress":[{"ip":"127.77.0.4"}]}}}`
	)
	if _, err := c.Kubectl(t.Context(), "-n", "shop", "patch", "service", "web", "--subresource=status", "--type=merge",
		"-p", `{"status":{"conditions":[`+theirs+`]}}`); err != nil {
		t.Fatal(err)
	}
	patch := patcher(t, c)
	awaitPolicy(t, func() error { return patch("web", "status", `{"metadata":{"labels":{"app":"other"}}}`) })

	cases := map[string]struct {
		reason  string
		service string
		main    bool // of the Service itself, not of its status
		patch   string
		refused string // what the refusal says; empty: admitted
	}{
		"address":                   {"the job", "web", false, address, ""},
		"address without a class":   {"the default may be ours", "classless", false, address, ""},
		"address of another class":  {"its controller publishes it", "theirs", false, address, "publishes addresses only"},
		"own finalizer":             {"the guard", "web", false, `{"metadata":{"finalizers":["example.com/keep","fairlead.dev/load-balancer"]}}`, ""},
		"shared finalizer":          {"the guard of the class-less default", "classless", false, `{"metadata":{"finalizers":["service.kubernetes.io/load-balancer-cleanup"]}}`, ""},
		"finalizer of others":       {"nobody could remove it", "web", false, `{"metadata":{"finalizers":["example.com/keep","example.com/more"]}}`, "changes no finalizers"},
		"finalizer of others gone":  {"their clean-up would be skipped", "web", false, `{"metadata":{"finalizers":null}}`, "changes no finalizers"},
		"own annotation":            {"an answer", "web", false, `{"metadata":{"annotations":{"fairlead.dev/observed":"1"}}}`, ""},
		"OpenStack's annotation":    {"what OCCM would write", "web", false, `{"metadata":{"annotations":{"loadbalancer.openstack.org/load-balancer-address":"192.0.2.1"}}}`, ""},
		"MetalLB's annotation":      {"what MetalLB would write", "web", false, `{"metadata":{"annotations":{"metallb.io/ip-allocated-from-pool":"a"}}}`, ""},
		"annotation of others":      {"it may command another controller", "web", false, `{"metadata":{"annotations":{"example.com/new":"1"}}}`, "changes no annotations"},
		"annotation of others new":  {"a new value as well", "web", false, `{"metadata":{"annotations":{"example.com/note":"changed"}}}`, "changes no annotations"},
		"annotation of others gone": {"and its removal", "web", false, `{"metadata":{"annotations":{"example.com/note":null}}}`, "changes no annotations"},
		"annotation alike":          {"only the whole prefix with its slash is ours", "web", false, `{"metadata":{"annotations":{"fairlead.dev.example.com/x":"1"}}}`, "changes no annotations"},
		"first label":               {"labels select", "theirs", false, `{"metadata":{"labels":{"a":"b"}}}`, "changes no labels"},
		"labels gone":               {"labels select", "web", false, `{"metadata":{"labels":null}}`, "changes no labels"},
		"owner":                     {"the garbage collector would delete the Service", "web", false, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Namespace","name":"shop","uid":"u"}]}}`, "changes no owner references"},
		"own condition":             {"an answer", "web", false, `{"status":{"conditions":[` + theirs + `,` + ours + `,` + ports + `]}}`, ""},
		"condition of others":       {"their answer", "web", false, `{"status":{"conditions":[` + theirsLess + `]}}`, "changes no conditions"},
		"condition of others gone":  {"their answer", "web", false, `{"status":{"conditions":[` + ours + `]}}`, "changes no conditions"},
		"condition of others new":   {"their answer", "theirs", false, `{"status":{"conditions":[` + theirs + `]}}`, "changes no conditions"},
		"spec":                      {"rights refuse it before the policy", "web", true, `{"spec":{"type":"ClusterIP"}}`, "forbidden"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			subresource := "status"
			if tc.main {
				subresource = ""
			}
			err := patch(tc.service, subresource, tc.patch)
			switch {
			case tc.refused == "" && err != nil:
				t.Errorf("%s, and yet: %v", tc.reason, err)
			case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
				t.Errorf("%s: got error %v, want one with %q", tc.reason, err, tc.refused)
			}
		})
	}
}

// awaitPolicy tries until the policy is in force; the API server reads policies
// a moment after they are written.
func awaitPolicy(t *testing.T, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err != nil && strings.Contains(err.Error(), "changes no labels") {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the policy is not in force; the last answer: %v", err)
		case <-tick.C:
		}
	}
}

func testRecords(t *testing.T, c *devcluster.Cluster) {
	const (
		recordText = `{"apiVersion":"fairlead.dev/v1alpha1","kind":"ServiceRecord","metadata":{"namespace":"fairlead-system","name":%q},
			"spec":{"serviceRef":{"namespace":"shop","name":%q,"uid":"u-1"},"provider":"local","addresses":[%q]}}`
		reservationText = `{"apiVersion":"fairlead.dev/v1alpha1","kind":"AddressReservation","metadata":{"namespace":"fairlead-system","name":"a"},
			"spec":{"address":%q,"for":{"namespace":"shop","name":"web"},"since":"2026-12-01T00:00:00Z","until":%q}}`
		later, earlier = "2026-12-01T00:10:00Z", "2026-11-30T00:00:00Z"
	)
	apply := func(text string, more ...string) error {
		file := filepath.Join(t.TempDir(), "object.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := c.Kubectl(t.Context(), append([]string{"apply", "--server-side", "-f", file}, more...)...)
		return err
	}
	for _, text := range []string{
		fmt.Sprintf(recordText, "shop.web", "web", "127.77.0.4"),
		fmt.Sprintf(reservationText, "127.77.0.5", later),
	} {
		if err := apply(text); err != nil {
			t.Fatalf("a valid object is refused: %v", err)
		}
	}
	cases := map[string]struct {
		reason  string
		text    string
		refused string // what the refusal says; empty: accepted
	}{
		"other addresses":    {"addresses change", fmt.Sprintf(recordText, "shop.web", "web", "fd00::1"), ""},
		"name of another":    {"one Service has one record", fmt.Sprintf(recordText, "shop.db", "web", "127.77.0.4"), "a record is named"},
		"no address":         {"a broken record would break the next start", fmt.Sprintf(recordText, "shop.db", "db", "web"), "every address is an IP address"},
		"longer reservation": {"a reservation may be prolonged", fmt.Sprintf(reservationText, "127.77.0.5", "2026-12-02T00:00:00Z"), ""},
		"other address":      {"its name would lie", fmt.Sprintf(reservationText, "127.77.0.6", later), "stays with its address"},
		"ends too early":     {"a reservation has a length", fmt.Sprintf(reservationText, "127.77.0.5", earlier), "until is not before since"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := apply(tc.text, "--dry-run=server")
			switch {
			case tc.refused == "" && err != nil:
				t.Errorf("%s, and yet: %v", tc.reason, err)
			case tc.refused != "" && (err == nil || !strings.Contains(err.Error(), tc.refused)):
				t.Errorf("%s: got error %v, want one with %q", tc.reason, err, tc.refused)
			}
		})
	}
}
