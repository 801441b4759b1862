package cli

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
)

func problemsOf(key, value string) []annotation.Problem {
	return annotation.Parse(annotation.Input{Annotations: map[string]string{key: value}, Provider: annotation.Local}).Problems
}

func TestDescribe(t *testing.T) {
	port443 := model.Port{Protocol: model.TCP, Number: 443}
	cases := map[string]struct {
		reason  string
		service corev1.Service
		slices  []discoveryv1.EndpointSlice
		fail    map[string]error
		records []v1alpha1.ServiceRecord
		events  []corev1.Event
	}{
		"served": {
			reason:  "every hop is as it should be",
			service: serviceNamed("web", annotated("fairlead.dev/proxy-protocol", "v2"), served(status.Input{})),
			slices:  []discoveryv1.EndpointSlice{sliceOf("web", stateReady, stateReady, stateDraining, stateNotReady)},
			records: []v1alpha1.ServiceRecord{{
				ObjectMeta: metav1.ObjectMeta{Name: "shop.web"},
				Spec:       v1alpha1.ServiceRecordSpec{Provider: "local", Pool: "local"},
			}},
			events: []corev1.Event{{
				InvolvedObject: corev1.ObjectReference{UID: "uid-web"}, Type: "Normal", Reason: "EnsuredLoadBalancer",
				Message: "Ensured load balancer at 127.77.0.4", LastTimestamp: metav1.NewTime(noon().Add(-3 * time.Minute)),
			}},
		},
		"invalid-option": {
			reason: "the first wrong hop is the option, and the remedy is a command",
			service: serviceNamed("web", annotated("fairlead.dev/timeout-client-data", "70s"),
				served(status.Input{Problems: problemsOf("fairlead.dev/timeout-client-data", "70s")})),
			slices: []discoveryv1.EndpointSlice{sliceOf("web", stateReady)},
		},
		"unknown-option": {
			reason: "a mistyped key is renamed",
			service: serviceNamed("web", annotated("fairlead.dev/proxy-protokol", "v2"),
				served(status.Input{Problems: problemsOf("fairlead.dev/proxy-protokol", "v2")})),
			slices: []discoveryv1.EndpointSlice{sliceOf("web", stateReady)},
		},
		"no-ready-endpoints": {
			reason:  "a pod that is not ready is named",
			service: serviceNamed("web", served(status.Input{})),
			slices:  []discoveryv1.EndpointSlice{sliceOf("web", stateNotReady)},
		},
		"no-pods": {
			reason:  "a selector that takes nothing",
			service: serviceNamed("web", served(status.Input{})),
		},
		"no-selector": {
			reason:  "without selector and slices",
			service: serviceNamed("web", func(s *corev1.Service) { s.Spec.Selector = nil }, served(status.Input{})),
		},
		"no-named-port": {
			reason: "the pods have no port of the target's name",
			service: serviceNamed("web", func(s *corev1.Service) {
				s.Spec.Ports[0].Name, s.Spec.Ports[0].TargetPort.Type, s.Spec.Ports[0].TargetPort.StrVal = "metrics", 1, "metrics"
			}, served(status.Input{})),
			slices: []discoveryv1.EndpointSlice{sliceOf("web", stateReady)},
		},
		"pending": {
			reason: "why there is no address",
			service: serviceNamed("web", func(s *corev1.Service) {
				say(s, status.Of(status.Input{Address: status.Notice{Reason: "PoolExhausted", Message: "All 2 addresses of pool local are in use; add a range to the pool, or delete a Service."}}))
			}),
			slices: []discoveryv1.EndpointSlice{sliceOf("web", stateReady)},
		},
		"port-error": {
			reason: "one port is not served",
			service: serviceNamed("web", served(status.Input{
				Ports:      []model.Port{{Protocol: model.TCP, Number: 80}, port443},
				PortErrors: []model.PortError{{Port: port443, Reason: "PortInUse", Message: "another program listens at 127.77.0.4:443; stop it"}},
			})),
			slices: []discoveryv1.EndpointSlice{sliceOf("web", stateReady)},
		},
		"never-seen": {
			reason:  "no controller runs",
			service: serviceNamed("web"),
			slices:  []discoveryv1.EndpointSlice{sliceOf("web", stateReady)},
		},
		"older-spec": {
			reason:  "the conditions are about an older spec: the manifest is read here, and the last hop says so",
			service: serviceNamed("web", served(status.Input{}), changedAfter(annotated("fairlead.dev/proxy-protocol", "v2"))),
			slices:  []discoveryv1.EndpointSlice{sliceOf("web", stateReady)},
		},
		"paused": {
			reason: "a hold is a wrong hop when something would change",
			service: serviceNamed("web", annotated("fairlead.dev/paused", "true"), served(status.Input{}), func(s *corev1.Service) {
				addresses := s.Status.LoadBalancer
				say(s, status.Of(status.Input{Hold: status.Notice{Reason: status.ReasonPaused, Message: "The Service is paused; it would be changed: 1 to create, 0 to change, 0 to delete. Remove the annotation fairlead.dev/paused."}}))
				s.Status.LoadBalancer = addresses
			}),
			slices: []discoveryv1.EndpointSlice{sliceOf("web", stateReady)},
		},
		"paused-without-endpoints": {
			reason: "missing endpoints are not what keeps a paused Service from being changed",
			service: serviceNamed("web", annotated("fairlead.dev/paused", "true"), served(status.Input{}), func(s *corev1.Service) {
				addresses := s.Status.LoadBalancer
				say(s, status.Of(status.Input{Hold: status.Notice{Reason: status.ReasonPaused, Message: "The Service is paused; it would be changed: 1 to create, 0 to change, 0 to delete. Remove the annotation fairlead.dev/paused."}}))
				s.Status.LoadBalancer = addresses
			}),
		},
		"paused-and-deleted": {
			reason: "what holds a deletion up is named, with the command that ends it",
			service: serviceNamed("web", annotated("fairlead.dev/paused", "true"), served(status.Input{}), func(s *corev1.Service) {
				s.DeletionTimestamp = new(metav1.NewTime(noon()))
			}),
		},
		"rewritten-address": {
			reason:  "an address that somebody else wrote is not said to be of the pool",
			service: serviceNamed("web", served(status.Input{})),
			slices:  []discoveryv1.EndpointSlice{sliceOf("web", stateReady)},
			records: []v1alpha1.ServiceRecord{{
				ObjectMeta: metav1.ObjectMeta{Name: "shop.web"},
				Spec:       v1alpha1.ServiceRecordSpec{Provider: "local", Pool: "local", Addresses: []string{"127.77.0.9"}},
			}},
		},
		"unknown-class": {
			reason:  "a class of our domain that no provider has is nobody's",
			service: serviceNamed("web", func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("fairlead.dev/locl") }),
		},
		"foreign-class": {
			reason:  "another controller's",
			service: serviceNamed("web", func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("example.com/other") }),
		},
		"no-class": {
			reason:  "nobody's yet",
			service: serviceNamed("web", classless),
		},
		"cluster-ip": {
			reason:  "no load balancer is asked for",
			service: serviceNamed("web", classless, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }),
		},
		"few-rights": {
			reason:  "what may not be read is said",
			service: serviceNamed("web", served(status.Input{})),
			fail: map[string]error{
				"Slices": forbidden("endpointslices"), "Nodes": forbidden("nodes"), "Record": forbidden("servicerecords"), "Events": forbidden("events"),
			},
		},
		"udp-and-sctp": {
			reason: "a protocol that the provider does not serve, told from the manifest alone",
			service: serviceNamed("web", func(s *corev1.Service) {
				s.Spec.Ports[1].Protocol = corev1.ProtocolSCTP
			}),
			slices: []discoveryv1.EndpointSlice{sliceOf("web", stateReady)},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &fakeCluster{services: []corev1.Service{tc.service}, slices: tc.slices, fail: tc.fail, records: tc.records, events: tc.events}
			golden(t, "describe/"+name+".txt", run(t, c, "", "describe", "svc/web").text())
		})
	}
}

// shopAndYard have two Services of ours in one namespace, one in another, and
// one that is not ours.
func shopAndYard() *fakeCluster {
	labelled := func(s *corev1.Service) { s.Labels = map[string]string{"tier": "edge"} }
	at := func(s *corev1.Service) {
		for i := range s.Status.Conditions {
			s.Status.Conditions[i].LastTransitionTime = metav1.NewTime(noon().Add(-3 * time.Minute))
		}
	}
	return &fakeCluster{
		services: []corev1.Service{
			serviceNamed("api", labelled),
			serviceNamed("foreign", func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("example.com/other") }),
			serviceNamed("web", served(status.Input{}), at),
			serviceNamed("yard", labelled, func(s *corev1.Service) { s.Namespace = "yard" }, served(status.Input{}), at),
		},
		slices: []discoveryv1.EndpointSlice{sliceOf("web", stateReady)},
	}
}

func TestDescribeSelects(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
	}{
		"several":        {reason: "without a name: all of the namespace that are ours"},
		"named":          {reason: "in the order of the arguments", args: []string{"svc/web", "svc/api"}},
		"everywhere":     {reason: "by labels in all namespaces, as data", args: []string{"-A", "-l", "tier=edge", "-o", "json"}},
		"yaml":           {reason: "one Service as data", args: []string{"web", "-o", "yaml"}},
		"wide":           {reason: "conditions with their times, members with their weights", args: []string{"web", "-o", "wide"}},
		"none-selected":  {reason: "nothing is ours", args: []string{"-l", "tier=none"}},
		"name-and-label": {reason: "usage", args: []string{"web", "-l", "tier=edge"}},
		"bad-labels":     {reason: "usage", args: []string{"-l", "=="}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			golden(t, "describe/"+name+".txt", run(t, shopAndYard(), "", append([]string{"describe"}, tc.args...)...).text())
		})
	}
}

func TestDescribeNotesWhatTheControllerAdds(t *testing.T) {
	served := served(status.Input{
		Note: "No node may take traffic: all are excluded by a label.",
		Observed: model.Observed{Health: []model.PortHealth{{
			Port: model.Port{Protocol: model.TCP, Number: 80}, At: []netip.AddrPort{netip.MustParseAddrPort("127.77.0.4:10080")},
		}}},
	})
	c := &fakeCluster{services: []corev1.Service{serviceNamed("web", served)}, slices: []discoveryv1.EndpointSlice{sliceOf("web", stateReady)}}
	got := run(t, c, "", "describe", "web")
	_, end, _ := strings.Cut(got.out, "\n\nNothing")
	if want := " is wrong.\nNote:   No node may take traffic: all are excluded by a label.\n"; end != want || got.code != ExitOK {
		t.Errorf("it ended with %q, exit code %d", end, got.code)
	}
}

func TestFurtherSentences(t *testing.T) {
	message := "Served at 192.0.2.1,2001:db8::1. TCP/80 has no ready endpoints; check it. Member 10.0.0.1:80 refuses e.g. all. 2 more do."
	want := []string{"TCP/80 has no ready endpoints; check it.", "Member 10.0.0.1:80 refuses e.g. all.", "2 more do."}
	if diff := cmp.Diff(want, furtherSentences(message)); diff != "" {
		t.Errorf("sentences (-want +got):\n%s", diff)
	}
	if got := furtherSentences("Served at 192.0.2.1."); got != nil {
		t.Errorf("nothing more was said than %v", got)
	}
}

// TestHintsSpeakAsThePlugin: what a plugin tells people to type works.
func TestHintsSpeakAsThePlugin(t *testing.T) {
	outdated := &fakeCluster{services: []corev1.Service{serviceNamed("web", served(status.Input{}), annotated("fairlead.dev/proxy-protocol", "v2"))}}
	for _, args := range [][]string{
		{"describe", "web"}, {"describe", "none"}, {"get", "pods"}, {"config", "check"}, {"explain", "nothing-like-it"}, {"plan"}, {"nonsense"},
	} {
		plain, plugin := run(t, outdated, "", args...), runAs(t, "kubectl-fairlead", outdated, "", args...)
		want := strings.NewReplacer("\"fairlead ", "\"kubectl fairlead ", ": fairlead ", ": kubectl fairlead ").Replace(plain.text())
		if diff := cmp.Diff(want, plugin.text()); diff != "" || want == plain.text() {
			t.Errorf("%v (-want +got):\n%s", args, diff)
		}
	}
}

func TestDescribeNames(t *testing.T) {
	c := &fakeCluster{services: []corev1.Service{serviceNamed("web")}}
	first := run(t, c, "", "describe", "svc/web")
	for _, arg := range []string{"web", "service/web"} {
		if got := run(t, c, "", "describe", arg); got != first {
			t.Errorf("describe %s differs from describe svc/web", arg)
		}
	}
	for arg, want := range map[string]ran{
		"pod/web": {err: "error: \"pod/web\" is no Service; write svc/NAME\n", code: ExitUsage},
		"svc/":    {err: "error: \"\" cannot be the name of a Service; write svc/NAME\n", code: ExitUsage},
		"none":    {err: "error: service \"none\" is not in namespace \"shop\"; \"fairlead get -A\" lists those that are served\n", code: ExitFailed},
	} {
		if got := run(t, c, "", "describe", arg); got != want {
			t.Errorf("describe %s: %+v, not %+v", arg, got, want)
		}
	}
}
