package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
)

func TestPlanOffline(t *testing.T) {
	cases := map[string]struct {
		reason string
		file   string
		args   []string
	}{
		"simple":         {reason: "API defaults, an address from the pool, endpoints of the same file", file: "simple.yaml"},
		"json":           {reason: "steps as data", file: "simple.yaml", args: []string{"-o", "json"}},
		"changes":        {reason: "steps by the exit code", file: "simple.yaml", args: []string{"--detailed-exitcode"}},
		"no-changes":     {reason: "nothing to do by the exit code", file: "blocked.yaml", args: []string{"--detailed-exitcode"}},
		"options":        {reason: "what is wrong is a sentence each", file: "options.yaml"},
		"openstack":      {reason: "the same for another provider", file: "options.yaml", args: []string{"--provider", "openstack"}},
		"blocked":        {reason: "exposure in doubt: nothing is served", file: "blocked.yaml"},
		"wide":           {reason: "the whole load balancer, with its members", file: "simple.yaml", args: []string{"-o", "wide"}},
		"wide-blocked":   {reason: "nothing is asked for", file: "blocked.yaml", args: []string{"-o", "wide"}},
		"labelled":       {reason: "only the Services with these labels", file: "labels.yaml", args: []string{"-l", "tier=edge"}},
		"bad-labels":     {reason: "usage", file: "labels.yaml", args: []string{"-l", "=="}},
		"mistyped-class": {reason: "a class of our domain that no provider has is nobody's", file: "mistyped-class.yaml"},
		"many":           {reason: "documents, lists, other kinds, other classes, other types", file: "many.yaml"},
		"dual-stack":     {reason: "a family that no pool has", file: "dual.yaml"},
		"pools":          {reason: "the pools of a configuration", file: "dual.yaml", args: []string{"--config", "testdata/plan/config.yaml"}},
		"bad-config":     {reason: "a configuration with a mistake", file: "simple.yaml", args: []string{"--config", "testdata/plan/simple.yaml"}},
		"nodes":          {reason: "without node ports nothing reaches the nodes", file: "nodes.yaml"},
		"none":           {reason: "no Service at all", file: "none.yaml"},
		"unknown":        {reason: "an unknown field has a line", file: "unknown.yaml"},
		"mistyped":       {reason: "a text where a number belongs has a line", file: "mistyped.yaml"},
		"twice":          {reason: "a key that stands twice has a line", file: "twice.yaml"},
		"no-ports":       {reason: "what the API server would refuse", file: "no-ports.yaml"},
		"bad-port":       {reason: "a port out of range has a line", file: "bad-port.yaml"},
		"no-name":        {reason: "a Service without a name", file: "no-name.yaml"},
		"no-kind":        {reason: "not a Kubernetes object", file: "no-kind.yaml"},
		"absent":         {reason: "no file", file: "absent.yaml"},
		"bad-provider":   {reason: "usage", file: "simple.yaml", args: []string{"--provider", "aws"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"plan", "--offline", "-f", "testdata/plan/" + tc.file}, tc.args...)
			golden(t, "plan/"+name+".txt", run(t, nil, "", args...).text())
		})
	}
}

func TestPlanReadsFoldersAndStandardInput(t *testing.T) {
	text, err := os.ReadFile("testdata/plan/simple.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"web.yml", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := run(t, nil, "", "plan", "--offline", "-f", "testdata/plan/simple.yaml")
	if got := run(t, nil, "", "plan", "--offline", "-f", dir); got != want {
		t.Errorf("the folder's plan: %+v, not %+v", got, want)
	}
	got := run(t, nil, string(text), "plan", "-f", "-")
	if got.out != want.out || got.err != "No cluster is configured, so the plan is made without one.\n" {
		t.Errorf("the plan of the standard input: %+v", got)
	}
	above := t.TempDir()
	if err := os.Rename(dir, filepath.Join(above, "in")); err != nil {
		t.Fatal(err)
	}
	if got := run(t, nil, "", "plan", "--offline", "-R", "-f", above); got != want {
		t.Errorf("the plan of the folder in the folder: %+v, not %+v", got, want)
	}
	if got := run(t, nil, "", "plan", "--offline", "-f", above); got.code != ExitFailed {
		t.Errorf("without -R the folder in the folder was read: %+v", got)
	}
	if got := run(t, nil, "", "plan", "-f", t.TempDir()); got.code != ExitFailed || !strings.Contains(got.err, "it has no .yaml") {
		t.Errorf("an empty folder: %+v", got)
	}
	if got := run(t, nil, "", "plan"); got.code != ExitUsage {
		t.Errorf("no file: %+v", got)
	}
}

// TestPlanCountsWhatItMarks: the summary's number is that of the lines marked ✗.
func TestPlanCountsWhatItMarks(t *testing.T) {
	for _, file := range []string{"simple", "options", "blocked", "dual", "nodes", "many"} {
		out := run(t, nil, "", "plan", "--offline", "-f", "testdata/plan/"+file+".yaml").out
		want := "; " + count(strings.Count(out, "  ✗ "), "problem") + "\n"
		if !strings.HasSuffix(out, want) {
			t.Errorf("%s does not end with %q:\n%s", file, want, out)
		}
	}
}

// asServer is a dry run that fills in what an API server would.
func asServer(manifest []byte, live *corev1.Service) (*corev1.Service, error) {
	var svc corev1.Service
	if err := json.Unmarshal(manifest, &svc); err != nil {
		return nil, err
	}
	return allocated(withDefaults(&svc, "none"), live), nil
}

func TestPlanOnCluster(t *testing.T) {
	refused := apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", nil)
	port443 := model.Port{Protocol: model.TCP, Number: 443}
	web := func(change ...func(*corev1.Service)) []corev1.Service {
		return []corev1.Service{serviceNamed("web", change...)}
	}
	cases := map[string]struct {
		reason   string
		file     string
		args     []string
		services []corev1.Service
		records  []v1alpha1.ServiceRecord
		dryRun   func([]byte, *corev1.Service) (*corev1.Service, error)
		fail     map[string]error
	}{
		"cluster-new":      {reason: "a Service that is not there", file: "web.yaml", dryRun: asServer},
		"cluster-same":     {reason: "nothing changes", file: "web.yaml", services: web(served(status.Input{})), dryRun: asServer, args: []string{"--detailed-exitcode"}},
		"cluster-changed":  {reason: "a port goes, another one and an option come", file: "web-changed.yaml", services: web(served(status.Input{})), dryRun: asServer},
		"cluster-address":  {reason: "another address is asked for", file: "web-address.yaml", services: web(served(status.Input{})), dryRun: asServer},
		"cluster-outdated": {reason: "the live spec is not acted on yet", file: "web.yaml", services: web(served(status.Input{}), annotated("fairlead.dev/proxy-protocol", "v2")), dryRun: asServer},
		"cluster-failed": {
			reason: "a port that is not served is created", file: "web.yaml", dryRun: asServer,
			services: web(served(status.Input{Ports: []model.Port{{Protocol: model.TCP, Number: 80}, port443}, PortErrors: []model.PortError{{Port: port443, Reason: "PortInUse", Message: "taken; free it"}}})),
		},
		"cluster-held": {
			reason: "an option that is wrong is held at its last accepted value", file: "web-bad.yaml", services: web(annotated("fairlead.dev/proxy-protocol", "v2"), served(status.Input{})), dryRun: asServer,
			records: []v1alpha1.ServiceRecord{{ObjectMeta: recordOf("web").ObjectMeta, Spec: v1alpha1.ServiceRecordSpec{Provider: "local", AcceptedOptions: map[string]string{"proxy-protocol": "v2"}}}},
		},
		"cluster-hostname": {
			reason: "a host name stands for the record's address", file: "web-hostname.yaml", dryRun: asServer,
			services: web(annotated("fairlead.dev/hostname", "shop.example.com"), served(status.Input{Hostname: "shop.example.com"})),
			records:  []v1alpha1.ServiceRecord{{ObjectMeta: recordOf("web").ObjectMeta, Spec: v1alpha1.ServiceRecordSpec{Provider: "local", Addresses: []string{"127.77.0.4"}}}},
		},
		"cluster-unwanted": {reason: "a Service that is no load balancer any more", file: "web-clusterip.yaml", services: web(served(status.Input{})), dryRun: asServer},
		"cluster-forbidden": {
			reason: "without a right to the dry run the defaults are assumed", file: "web.yaml", services: web(served(status.Input{})),
			dryRun: func([]byte, *corev1.Service) (*corev1.Service, error) { return nil, forbidden("services") },
			fail:   map[string]error{"Nodes": forbidden("nodes"), "Record": forbidden("servicerecords")},
		},
		"cluster-webhook": {
			reason: "nor do webhooks without dry run stop the plan", file: "simple.yaml",
			dryRun: func([]byte, *corev1.Service) (*corev1.Service, error) {
				return nil, apierrors.NewBadRequest("admission webhook \"x\" does not support dry run")
			},
		},
		"cluster-refused": {reason: "the API server's refusal is the answer", file: "web.yaml", dryRun: func([]byte, *corev1.Service) (*corev1.Service, error) { return nil, refused }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &fakeCluster{
				services: tc.services, records: tc.records, dryRun: tc.dryRun, fail: tc.fail,
				slices: []discoveryv1.EndpointSlice{sliceOf("web", stateReady)},
			}
			args := append([]string{"plan", "-f", "testdata/plan/" + tc.file}, tc.args...)
			golden(t, "plan/"+name+".txt", run(t, c, "", args...).text())
		})
	}
}

func TestLineOf(t *testing.T) {
	text := "\n\nkind: Service\nmetadata:\n  annotations:\n    fairlead.dev/a: b\nspec:\n  ports:\n  - port: 80\n  - port: 81\n    name: x\n"
	for path, want := range map[string]int{
		"": 3, "kind": 3, "metadata.annotations.fairlead.dev/a": 6, "spec.ports[1].name": 11, "spec.ports[0].nodePort": 9,
		"spec.ports.port": 8, "spec.ports[7]": 8, "nothing": 3, "spec.ports[x]": 8,
	} {
		if got := lineOf([]byte(text), path); got != want {
			t.Errorf("line of %q is %d, not %d", path, got, want)
		}
	}
	if got := lineOf([]byte(": : :"), "a"); got != 1 {
		t.Errorf("line in no YAML is %d", got)
	}
}
