package cli

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/status"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

func recordOf(name string) v1alpha1.ServiceRecord {
	return v1alpha1.ServiceRecord{ObjectMeta: metav1.ObjectMeta{Name: "shop." + name}, Spec: v1alpha1.ServiceRecordSpec{Provider: "local"}}
}

func sharedFinalizer(s *corev1.Service) {
	s.Finalizers = append(s.Finalizers, translate.SharedFinalizer, "example.com/kept")
}

// releasable is a cluster with a Service of each sort.
func releasable() *fakeCluster {
	return &fakeCluster{
		services: []corev1.Service{
			serviceNamed("classless", classless, served(status.Input{}), sharedFinalizer),
			serviceNamed("options", classless,
				annotated("fairlead.dev/proxy-protocol", "true"), annotated("fairlead.dev/address", "192.0.2.7"),
				annotated("fairlead.dev/source-ranges", "192.0.2.0/24"), annotated("fairlead.dev/timeout-client-data", "70000"),
				annotated("loadbalancer.openstack.org/timeout-client-data", "60000"), annotated("fairlead.dev/enable-health-monitor", "true,443=false"),
				annotated("fairlead.dev/lb-method", "nonsense"), annotated("fairlead.dev/paused", "true"),
				served(status.Input{}), sharedFinalizer),
			serviceNamed("foreign", func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("example.com/other") }),
			serviceNamed("web", served(status.Input{}), func(s *corev1.Service) { s.Labels = map[string]string{"tier": "edge"} }),
		},
		records: []v1alpha1.ServiceRecord{recordOf("classless"), recordOf("web")},
	}
}

func TestRelease(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
		stdin  string
		leader string
		seen   bool
		fail   map[string]error
	}{
		"occm":            {reason: "class-less Services keep the finalizer that OCCM uses", args: []string{"--all", "--to", "occm", "--yes"}},
		"metallb":         {reason: "and lose it for anybody else", args: []string{"--all", "--to", "metallb", "--yes"}},
		"nothing":         {reason: "annotations are left alone", args: []string{"--all", "--to", "nothing", "--yes"}},
		"dry-run":         {reason: "nothing is written", args: []string{"--all", "--to", "occm", "--dry-run"}},
		"one":             {reason: "only the Service that is named", args: []string{"svc/web", "--to", "nothing", "--yes"}},
		"foreign":         {reason: "what is not ours is left alone", args: []string{"svc/foreign", "--to", "nothing", "--yes"}},
		"asked-yes":       {reason: "after a question", args: []string{"svc/web", "--to", "nothing"}, stdin: "y\n"},
		"asked-no":        {reason: "No is the default", args: []string{"svc/web", "--to", "nothing"}, stdin: "\n"},
		"asked-nobody":    {reason: "no answer is No", args: []string{"svc/web", "--to", "nothing"}},
		"live":            {reason: "a live controller: paused, waited for, then released", args: []string{"--all", "--to", "nothing", "--yes"}, leader: "pod-1"},
		"live-confirms":   {reason: "a controller that has seen the pause is not waited for", args: []string{"svc/web", "--to", "occm", "--yes"}, leader: "pod-1", seen: true},
		"lease-forbidden": {reason: "who may not read the lease takes the controller to be live", args: []string{"svc/web", "--to", "nothing", "--yes"}, fail: map[string]error{"Leader": forbidden("leases")}},
		"record-forbidden": {
			reason: "without a right to the record nothing is begun",
			args:   []string{"svc/web", "--to", "nothing", "--yes"}, fail: map[string]error{"Record": forbidden("servicerecords")},
		},
		"moved-on":  {reason: "a Service that never stands still", args: []string{"svc/web", "--to", "nothing", "--yes"}, fail: map[string]error{"write": fmt.Errorf("writing: %w", kube.ErrMovedOn)}},
		"json":      {reason: "what was done, as data; labels and a namespace", args: []string{"-l", "tier=edge", "--to", "occm", "--yes", "-o", "json"}},
		"json-plan": {reason: "what would be done, everywhere", args: []string{"--all", "-A", "--to", "occm", "--dry-run", "-o", "yaml"}},
		"json-cut":  {reason: "what failed is said as data, too", args: []string{"svc/web", "--to", "nothing", "--yes", "-o", "json"}, fail: map[string]error{"write": fmt.Errorf("writing: %w", kube.ErrMovedOn)}},
		"json-asks": {reason: "usage", args: []string{"--all", "--to", "occm", "-o", "json"}},
		"several":   {reason: "by their names", args: []string{"svc/web", "foreign", "--to", "nothing", "--yes"}},
		"no-to":     {reason: "usage", args: []string{"--all"}},
		"no-name":   {reason: "usage", args: []string{"--to", "occm"}},
		"both":      {reason: "usage", args: []string{"svc/web", "--all", "--to", "occm"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := releasable()
				c.leader, c.confirms, c.fail = tc.leader, tc.seen, tc.fail
				got := run(t, c, tc.stdin, append([]string{"release"}, tc.args...)...).text()
				golden(t, "release/"+name+".txt", got+"--- writes\n"+strings.Join(append(c.writes, ""), "\n"))
			})
		})
	}
}

// TestReleaseIsRepeatable cuts a release at every write and repeats it: the end
// is the same, and nothing holds up the deletion of a Service.
func TestReleaseIsRepeatable(t *testing.T) {
	args := []string{"release", "--all", "--to", "metallb", "--yes"}
	whole := releasable()
	if got := run(t, whole, "", args...); got.code != ExitOK {
		t.Fatalf("%+v", got)
	}
	for _, svc := range whole.services {
		for _, f := range svc.Finalizers {
			if f == translate.Finalizer || f == translate.SharedFinalizer {
				t.Errorf("%s still carries %s", svc.Name, f)
			}
		}
	}
	for cut := range len(whole.writes) {
		c := releasable()
		c.stopAfter = new(cut)
		if got := run(t, c, "", args...); got.code != ExitFailed || len(c.writes) != cut {
			t.Fatalf("cut after %d writes, the release made %d: %+v", cut, len(c.writes), got)
		}
		c.stopAfter = nil
		if got := run(t, c, "", args...); got.code != ExitOK {
			t.Fatalf("repeated after %d writes: %+v", cut, got)
		}
		if diff := cmp.Diff(whole.services, c.services); diff != "" {
			t.Errorf("cut after %d writes, the end differs (-whole +repeated):\n%s", cut, diff)
		}
		if diff := cmp.Diff(whole.writes, c.writes); diff != "" {
			t.Errorf("cut after %d writes, a write was made twice (-whole +repeated):\n%s", cut, diff)
		}
	}
	before := len(whole.writes)
	if got := run(t, whole, "", args...); got.code != ExitOK || len(whole.writes) != before {
		t.Errorf("a second release wrote %v: %+v", whole.writes[before:], got)
	}
}
