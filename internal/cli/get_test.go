package cli

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
)

// shop is a cluster with a Service in each state.
func shop() *fakeCluster {
	foreign := "example.com/other"
	return &fakeCluster{
		services: []corev1.Service{
			serviceNamed("bad", annotated("fairlead.dev/timeout-client-data", "70s"), served(status.Input{Problems: problemsOf("fairlead.dev/timeout-client-data", "70s")})),
			serviceNamed("default", classless, served(status.Input{})),
			serviceNamed("foreign", func(s *corev1.Service) { s.Spec.LoadBalancerClass = &foreign }),
			serviceNamed("going", served(status.Input{}), func(s *corev1.Service) { s.DeletionTimestamp = new(metav1.NewTime(noon())) }),
			serviceNamed("new"),
			serviceNamed("partly", served(status.Input{
				Ports:      []model.Port{{Protocol: model.TCP, Number: 80}, {Protocol: model.TCP, Number: 443}},
				PortErrors: []model.PortError{{Port: model.Port{Protocol: model.TCP, Number: 443}, Reason: "PortInUse", Message: "another program listens at 127.77.0.4:443; stop it"}},
			})),
			serviceNamed("plain", classless),
			serviceNamed("web", served(status.Input{}), func(s *corev1.Service) { s.Labels = map[string]string{"tier": "edge"} }),
			serviceNamed("changed", served(status.Input{}), changedAfter(annotated("fairlead.dev/proxy-protocol", "v2"))),
			serviceNamed("elsewhere", served(status.Input{}), func(s *corev1.Service) {
				s.Namespace = "other"
				s.CreationTimestamp = metav1.NewTime(noon().Add(-50 * time.Hour))
			}),
		},
		records: []v1alpha1.ServiceRecord{{
			ObjectMeta: metav1.ObjectMeta{Name: "shop.default"},
			Spec:       v1alpha1.ServiceRecordSpec{Provider: "openstack"},
		}},
	}
}

func TestGet(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
		fail   map[string]error
	}{
		"plain":        {reason: "bare get lists the Services of the namespace that are ours, each state in a word", args: []string{"get"}},
		"wide":         {reason: "all namespaces with class, reason and message", args: []string{"get", "balancers", "-A", "-o", "wide"}},
		"json":         {reason: "the documented list", args: []string{"get", "-l", "tier=edge", "-o", "json"}},
		"yaml":         {reason: "the documented list", args: []string{"get", "-l", "tier=edge", "-o", "yaml"}},
		"none":         {reason: "an empty table says where to look", args: []string{"get", "-l", "tier=none"}},
		"none-json":    {reason: "an empty list is a list", args: []string{"get", "-l", "tier=none", "-o", "json"}},
		"forbidden":    {reason: "what may not be read is one sentence with a remedy", args: []string{"get"}, fail: map[string]error{"Services": forbidden("services")}},
		"no-records":   {reason: "without a right to records the provider of class-less Services is unknown", args: []string{"get"}, fail: map[string]error{"Records": forbidden("servicerecords")}},
		"bad-selector": {reason: "usage", args: []string{"get", "-l", "a=b=c"}},
		"bad-output":   {reason: "usage", args: []string{"get", "-o", "xml"}},
		"bad-argument": {reason: "usage", args: []string{"get", "pods"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := shop()
			c.fail = tc.fail
			golden(t, "get/"+name+".txt", run(t, c, "", tc.args...).text())
		})
	}
}

func TestNoCluster(t *testing.T) {
	got := run(t, nil, "", "get")
	want := "error: no cluster is configured; set KUBECONFIG or give --kubeconfig\n"
	if got.err != want || got.code != ExitFailed {
		t.Errorf("get without a cluster said %q and ended with %d", got.err, got.code)
	}
}

func TestPluginName(t *testing.T) {
	for _, program := range []string{"kubectl-fairlead", "kubectl-fairlead.exe"} {
		got := runAs(t, program, shop(), "", "get", "--help")
		if !strings.Contains(got.out, "kubectl fairlead get [balancers]") || !strings.Contains(got.out, "\n  kubectl fairlead get -n shop") {
			t.Errorf("%s speaks of itself otherwise:\n%s", program, got.out)
		}
	}
}

func TestUnknownCommand(t *testing.T) {
	for args, want := range map[string]string{
		"gett":         "error: unknown command \"gett\"; did you mean \"get\"?\n",
		"frobnicate":   "error: unknown command \"frobnicate\"; see \"fairlead --help\"\n",
		"config chekc": "error: unknown command \"chekc\"; did you mean \"check\"?\n",
		"get --foo":    "error: unknown flag: --foo; see \"fairlead get --help\"\n",
	} {
		got := run(t, nil, "", strings.Fields(args)...)
		if got.err != want || got.code != ExitUsage {
			t.Errorf("%q said %q and ended with %d", args, got.err, got.code)
		}
	}
}

func TestAge(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": -time.Second, "119s": 119 * time.Second, "2m": 2 * time.Minute, "119m": 119 * time.Minute, "2h": 2 * time.Hour, "47h": 47 * time.Hour, "2d": 48 * time.Hour,
	} {
		if got := age(noon().Add(-d), noon()); got != want {
			t.Errorf("age of %v is %s, not %s", d, got, want)
		}
	}
}
