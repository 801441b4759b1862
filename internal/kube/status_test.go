package kube

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
)

// balanced returns a load balancer Service as it is read.
func balanced(edits ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1", ResourceVersion: "7"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	for _, e := range edits {
		e(svc)
	}
	return svc
}

func noon() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }

// sayable is a report with everything in it.
func sayable() Said {
	port := model.Port{Protocol: model.TCP, Number: 80}
	return Said{
		Annotations: map[string]string{"fairlead.dev/observed": "abc"},
		Report: status.Report{
			Ingress:    []status.Ingress{{IP: netip.MustParseAddr("203.0.113.7"), Proxy: true, Ports: []status.PortStatus{{Port: port, Error: "fairlead.dev/PortInUse"}}}},
			Conditions: []status.Condition{{Type: status.Accepted, True: true, Reason: "Accepted", Message: "Understood."}},
		},
	}
}

func TestApplyBody(t *testing.T) {
	condition := func(changed, value string) string {
		return `"conditions":[{"type":"fairlead.dev/Accepted","status":"` + value + `","lastTransitionTime":"` + changed + `","reason":"Accepted","message":"Understood."}]`
	}
	const head = `{"apiVersion":"v1","kind":"Service","metadata":{"annotations":{"fairlead.dev/observed":"abc"},"name":"web","namespace":"shop","uid":"uid-1"},"status":{`
	const ingress = `,"loadBalancer":{"ingress":[{"ip":"203.0.113.7","ipMode":"Proxy","ports":[{"port":80,"protocol":"TCP","error":"fairlead.dev/PortInUse"}]}]}}}`
	stood := func(value metav1.ConditionStatus) func(*corev1.Service) {
		return func(svc *corev1.Service) {
			svc.Status.Conditions = []metav1.Condition{{Type: status.Accepted, Status: value, LastTransitionTime: metav1.NewTime(noon().Add(-time.Hour))}}
		}
	}
	cases := map[string]struct {
		reason string
		svc    *corev1.Service
		said   Said
		want   string
	}{
		"Everything": {"our complete part, with the uid", balanced(), sayable(), head + condition("2026-05-01T12:00:00Z", "True") + ingress},
		"Unchanged":  {"a condition keeps its time while its status stays", balanced(stood("True")), sayable(), head + condition("2026-05-01T11:00:00Z", "True") + ingress},
		"Changed":    {"and gets a new one when it changes", balanced(stood("False")), sayable(), head + condition("2026-05-01T12:00:00Z", "True") + ingress},
		"EmptyIngress": {
			"an empty ingress is said, not left out", balanced(),
			Said{Report: status.Report{Ingress: []status.Ingress{}}},
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"shop","uid":"uid-1"},"status":{"loadBalancer":{"ingress":[]}}}`,
		},
		"NilIngress": {
			"none is the same as an empty one", balanced(),
			Said{},
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"shop","uid":"uid-1"},"status":{"loadBalancer":{"ingress":[]}}}`,
		},
		"Rival": {
			"an ingress that is left to a rival is not part of it", balanced(),
			Said{Report: status.Report{KeepRival: true}},
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"shop","uid":"uid-1"},"status":{}}`,
		},
		"NoLoadBalancer": {
			"nor on a Service of another type, where the API forbids it", balanced(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }),
			Said{},
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"shop","uid":"uid-1"},"status":{}}`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := json.Marshal(ApplyBody(tc.svc, tc.said, noon()))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// after returns the Service as the API server has it after an apply.
func after(t *testing.T, svc *corev1.Service, said Said) *corev1.Service {
	t.Helper()
	text, err := json.Marshal(ApplyBody(svc, said, noon()))
	if err != nil {
		t.Fatal(err)
	}
	var applied corev1.Service
	if err := json.Unmarshal(text, &applied); err != nil {
		t.Fatal(err)
	}
	applied.Spec = svc.Spec
	return &applied
}

func owning(manager string, op metav1.ManagedFieldsOperationType, fields string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.ManagedFields = append(svc.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: op, FieldsV1: metav1.NewFieldsV1(fields), Time: new(metav1.NewTime(noon())),
		})
	}
}

const ourOldCondition = `{"f:status":{"f:conditions":{"k:{\"type\":\"fairlead.dev/Old\"}":{}}}}`

func TestSays(t *testing.T) {
	old := func(svc *corev1.Service) {
		svc.Status.Conditions = append(svc.Status.Conditions, metav1.Condition{Type: "fairlead.dev/Old", Status: "True"})
	}
	cases := map[string]struct {
		reason string
		change func(*corev1.Service)
		said   func(*Said)
		want   bool
	}{
		"All":               {reason: "right after the apply", want: true},
		"NoAnnotation":      {reason: "our annotation was taken off", change: func(s *corev1.Service) { s.Annotations = nil }},
		"OtherAnnotation":   {reason: "our annotation was changed", change: func(s *corev1.Service) { s.Annotations["fairlead.dev/observed"] = "x" }},
		"ForeignData":       {reason: "what others said is none of ours", change: func(s *corev1.Service) { s.Annotations["example.org/x"] = "y"; old(s) }, want: true},
		"NoCondition":       {reason: "our condition was taken off", change: func(s *corev1.Service) { s.Status.Conditions = nil }},
		"OtherStatus":       {reason: "its status differs", change: func(s *corev1.Service) { s.Status.Conditions[0].Status = "False" }},
		"OtherReason":       {reason: "its reason differs", change: func(s *corev1.Service) { s.Status.Conditions[0].Reason = "x" }},
		"OtherMessage":      {reason: "its message differs", change: func(s *corev1.Service) { s.Status.Conditions[0].Message = "x" }},
		"OtherTime":         {reason: "its time is not compared", change: func(s *corev1.Service) { s.Status.Conditions[0].LastTransitionTime = metav1.Time{} }, want: true},
		"OurOldCondition":   {reason: "a condition of ours that is to go", change: func(s *corev1.Service) { old(s); owning(FieldManager, "Apply", ourOldCondition)(s) }},
		"TheirOldOne":       {reason: "one of another manager", change: func(s *corev1.Service) { old(s); owning("occm", "Apply", ourOldCondition)(s) }, want: true},
		"OurUpdate":         {reason: "only our applies own anything", change: func(s *corev1.Service) { old(s); owning(FieldManager, "Update", ourOldCondition)(s) }, want: true},
		"NoIngress":         {reason: "the ingress was emptied", change: func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = nil }},
		"OtherMode":         {reason: "its mode was changed", change: func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IPMode = nil }},
		"OtherPort":         {reason: "a port's error was taken off", change: func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].Ports[0].Error = nil }},
		"RivalsIngress":     {reason: "an ingress that is left to a rival", change: func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = nil }, said: func(s *Said) { s.Report.KeepRival = true }, want: true},
		"NoLoadBalancer":    {reason: "a Service of another type publishes nothing", change: func(s *corev1.Service) { s.Spec.Type, s.Status.LoadBalancer.Ingress = "ClusterIP", nil }, want: true},
		"AnotherAddress":    {reason: "the address is another", change: func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IP = "203.0.113.8" }},
		"SameAddressMapped": {reason: "the same address in another form", change: func(s *corev1.Service) { s.Status.LoadBalancer.Ingress[0].IP = "::ffff:203.0.113.7" }, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			said := sayable()
			svc := after(t, balanced(), said)
			if tc.change != nil {
				tc.change(svc)
			}
			if tc.said != nil {
				tc.said(&said)
			}
			if got := Says(svc, said); got != tc.want {
				t.Errorf("%s: Says is %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

// TestIngressRoundTrip: what is written is read back, and compares equal.
func TestIngressRoundTrip(t *testing.T) {
	port := model.Port{Protocol: model.UDP, Number: 53}
	cases := map[string][]status.Ingress{
		"Address":   {{IP: netip.MustParseAddr("203.0.113.7")}},
		"Proxy":     {{IP: netip.MustParseAddr("2001:db8::7"), Proxy: true}},
		"Hostname":  {{Hostname: "web.example.org"}},
		"Ports":     {{IP: netip.MustParseAddr("203.0.113.7"), Ports: []status.PortStatus{{Port: port}, {Port: port, Error: "fairlead.dev/X"}}}},
		"DualStack": {{IP: netip.MustParseAddr("203.0.113.7")}, {IP: netip.MustParseAddr("2001:db8::7")}},
		"None":      nil,
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			svc := balanced()
			svc.Status.LoadBalancer.Ingress = ingressOf(want)
			got := IngressOf(svc)
			if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" || !SameIngress(want, got) {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	odd := balanced()
	odd.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "nonsense"}, {}, {IP: "203.0.113.7"}, {Hostname: "h"}}
	if got := AddressesOf(odd); len(got) != 1 || got[0] != netip.MustParseAddr("203.0.113.7") {
		t.Errorf("addresses %v, want the one that is one", got)
	}
}

func TestRivalOf(t *testing.T) {
	const balancer, other = `{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`, `{"f:status":{"f:conditions":{}}}`
	later := func(svc *corev1.Service) {
		owning("kubectl", "Update", balancer)(svc)
		svc.ManagedFields[len(svc.ManagedFields)-1].Time = new(metav1.NewTime(noon().Add(time.Minute)))
	}
	cases := map[string]struct {
		reason string
		svc    *corev1.Service
		want   string
	}{
		"Nobody":   {"nobody else wrote it", balanced(owning(FieldManager, "Apply", balancer)), ""},
		"Somebody": {"the one who did", balanced(owning(FieldManager, "Apply", balancer), owning("occm", "Update", balancer)), "occm"},
		"Latest":   {"of several the latest", balanced(owning("occm", "Update", balancer), later), "kubectl"},
		"Other":    {"who wrote something else is none", balanced(owning("occm", "Update", other)), ""},
		"NoFields": {"an entry without fields", balanced(func(s *corev1.Service) { s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}} }), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := RivalOf(tc.svc); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
