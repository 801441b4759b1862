package translate

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/ipam"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// TestMain declares -update, which must exist before the arguments are parsed.
func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the golden files instead of comparing with them")
	os.Exit(m.Run())
}

func updating() bool { return flag.Lookup("update").Value.String() == "true" }

func port(name string, protocol corev1.Protocol, number, nodePort int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: protocol, Port: number, NodePort: nodePort}
}

func portList(list ...corev1.ServicePort) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.Ports = list }
}

// TestGolden compares what Services become with golden files.
func TestGolden(t *testing.T) {
	three := portList(port("https", corev1.ProtocolTCP, 443, 30443), port("dns", corev1.ProtocolUDP, 53, 30053), port("http", "", 80, 30080))
	cases := map[string]struct {
		reason string
		svc    *corev1.Service
		nodes  []corev1.Node
	}{
		"plain":        {"what is not set is not sent", service(), nil},
		"sorted":       {"listeners are in the order of their ports", service(three), nil},
		"every-option": {"each option finds its place", service(three, everyOption), nil},
		"affinity": {"the API server's default where the time-out is missing", service(func(svc *corev1.Service) {
			svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		}), nil},
		"affinity-timeout": {"the time-out that is asked for", service(func(svc *corev1.Service) {
			svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(60))}}
		}), nil},
		"everybody": {"ranges that name everybody of both families restrict nobody", service(func(svc *corev1.Service) {
			svc.Spec.LoadBalancerSourceRanges = []string{"0.0.0.0/0", "::/0"}
		}), nil},
		"everybody-of-one": {"everybody of one family keeps the other out", service(func(svc *corev1.Service) {
			svc.Spec.LoadBalancerSourceRanges = []string{"0.0.0.0/0"}
		}), nil},
		"proxy-protocol": {"OCCM's word for v1", service(three, func(svc *corev1.Service) {
			svc.Annotations["loadbalancer.openstack.org/proxy-protocol"] = "true"
		}), nil},
		"not-served":       {"a protocol that the provider has not", service(portList(port("a", corev1.ProtocolSCTP, 99, 0), port("b", corev1.ProtocolTCP, 80, 0))), nil},
		"no-node-port":     {"traffic for nodes needs node ports", service(portList(port("a", corev1.ProtocolTCP, 81, 0), port("b", corev1.ProtocolTCP, 80, 30080))), []corev1.Node{nodeAt("one", "192.0.2.1")}},
		"twice":            {"a port that stands twice is one listener", service(portList(port("a", corev1.ProtocolTCP, 80, 1), port("b", corev1.ProtocolTCP, 80, 2))), nil},
		"no-ports":         {"nothing to serve", service(portList()), nil},
		"invalid-new":      {"a new Service whose exposure is unclear is blocked", service(with("source-ranges", "10.0.0.0/99")), nil},
		"invalid-harmless": {"another option blocks nobody", service(with("connection-limit", "many")), nil},
		"hostname":         {"a host name to publish", service(with("hostname", "web.example.org")), nil},
		"paused":           {"nothing is to be written", service(with("paused", "true")), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := "# " + tc.reason + "\n" + resultText(translated(tc.svc, tc.nodes, slice(endpointAt("10.0.0.1", "one", up()))))
			file := filepath.Join("testdata", name+".txt")
			if updating() {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func everyOption(svc *corev1.Service) {
	for _, o := range [][2]string{
		{"connection-limit", "100"},
		{"timeout-client-data", "50000"},
		{"timeout-member-connect", "5000"},
		{"timeout-member-data", "60000"},
		{"timeout-tcp-inspect", "1000"},
		{"lb-method", "LEAST_CONNECTIONS"},
		{"proxy-protocol", "v2"},
		{"source-ranges", "10.0.0.0/8,2001:db8::/32"},
		{"enable-health-monitor", "true"},
		{"health-monitor-delay", "5"},
		{"health-monitor-timeout", "3"},
		{"health-monitor-max-retries", "2"},
		{"health-monitor-max-retries-down", "4"},
	} {
		with(o[0], o[1])(svc)
	}
}

func resultText(r Result) string {
	var out strings.Builder
	out.WriteString(r.Balancer.Text())
	fmt.Fprintf(&out, "ports %v blocked %v paused %v hostname %q\n", r.Ports, r.Blocked, r.Paused, r.Hostname)
	for _, e := range r.PortErrors {
		fmt.Fprintf(&out, "port error %s %s: %s\n", e.Port, e.Reason, e.Message)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&out, "problem %s: %s\n", p.Kind, p.Message)
	}
	return out.String()
}

// TestRequest: what address management is asked for.
func TestRequest(t *testing.T) {
	web := model.Key{Namespace: "shop", Name: "web"}
	base := ipam.Request{Owner: web, Families: []model.Family{model.IPv4}, Ports: []model.Port{{Protocol: model.TCP, Number: 80}}}
	want := func(edit func(*ipam.Request)) ipam.Request {
		r := base
		edit(&r)
		return r
	}
	cases := map[string]struct {
		reason string
		svc    *corev1.Service
		want   ipam.Request
	}{
		"Plain": {"any address of the family", service(), base},
		"DualStack": {"both families, in the Service's order", service(families(corev1.IPv6Protocol, corev1.IPv4Protocol)), want(func(r *ipam.Request) {
			r.Families = []model.Family{model.IPv6, model.IPv4}
		})},
		"RequireDualStack": {"both or none", service(func(svc *corev1.Service) { svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) }), want(func(r *ipam.Request) {
			r.RequireAll = true
		})},
		"PreferDualStack": {"what there is", service(func(svc *corev1.Service) { svc.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) }), base},
		"Address": {"the spec field wins over the annotation", service(with("address", "192.0.2.2"), func(svc *corev1.Service) { svc.Spec.LoadBalancerIP = "192.0.2.1" }), want(func(r *ipam.Request) {
			r.Addresses = addrsOf("192.0.2.1")
		})},
		"Pool": {"by name", service(with("address-pool", "blue")), want(func(r *ipam.Request) { r.Pool = "blue" })},
		"Share": {"the neutral option shares within the namespace", service(with("share", "k")), want(func(r *ipam.Request) {
			r.Share = ipam.Share{Key: "k", Namespace: "shop"}
		})},
		"ShareAsMetalLB": {"MetalLB's shares with any namespace", service(func(svc *corev1.Service) { svc.Annotations["metallb.io/allow-shared-ip"] = "k" }), want(func(r *ipam.Request) {
			r.Share = ipam.Share{Key: "k"}
		})},
		"ShareLocal": {"under policy Local only those with the same pods", service(with("share", "k"), local, func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"b": "2", "a": "1"} }), want(func(r *ipam.Request) {
			r.Share = ipam.Share{Key: "k", Namespace: "shop", Backend: "a=1,b=2"}
		})},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Service(Source{Service: tc.svc, Protocols: []model.Protocol{model.TCP}}).Request
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestAcceptedIsKept: a value that is refused is held at the last accepted one,
// and blocks nobody who was served.
func TestAcceptedIsKept(t *testing.T) {
	svc := service(with("source-ranges", "nonsense"))
	r := Service(Source{
		Service: svc, Provider: "local", Protocols: []model.Protocol{model.TCP},
		Accepted: map[annotation.Name]string{annotation.SourceRanges: "10.0.0.0/8"},
	})
	if r.Blocked || len(r.Problems) != 1 || !r.Problems[0].Held {
		t.Errorf("blocked %v, problems %+v; want one that is held", r.Blocked, r.Problems)
	}
	if got := fmt.Sprint(r.Balancer.Listeners[0].AllowedCIDRs); got != "[10.0.0.0/8]" {
		t.Errorf("ranges %s, want those accepted before", got)
	}
}

func TestClaimOf(t *testing.T) {
	scope := Scope{Providers: []string{"local", "openstack"}, Selected: true}
	scoped := func(edit func(*Scope)) Scope {
		s := scope
		edit(&s)
		return s
	}
	class := func(name string) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = &name }
	}
	guarded := func(svc *corev1.Service) { svc.Finalizers = []string{Finalizer} }
	shared := func(svc *corev1.Service) { svc.Finalizers = []string{SharedFinalizer} }
	cluster := func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP }
	deleted := func(svc *corev1.Service) { svc.DeletionTimestamp = new(metav1.Now()) }
	isDefault := func(s *Scope) { s.Default = "local" }
	recorded := func(provider string) func(*Scope) {
		return func(s *Scope) { s.Recorded, s.RecordedProvider = true, provider }
	}
	serve := func(provider string, finalizers ...string) Claim {
		return Claim{Verdict: Serve, Provider: provider, Finalizers: finalizers}
	}
	clean, ignore := Claim{Verdict: Clean}, Claim{Verdict: Ignore}
	cases := map[string]struct {
		reason string
		svc    *corev1.Service
		scope  Scope
		want   Claim
	}{
		"OurClass":             {"the class names the provider", service(class("fairlead.dev/openstack")), scope, serve("openstack", Finalizer)},
		"OurClassUnknown":      {"a provider that is not in service", service(class("fairlead.dev/bare-metal")), scope, ignore},
		"OtherClass":           {"somebody else's", service(class("example.org/lb")), scope, ignore},
		"NoClass":              {"without a class and not the default", service(), scope, ignore},
		"NoClassDefault":       {"without a class and the default: the shared finalizer besides", service(), scoped(isDefault), serve("local", Finalizer, SharedFinalizer)},
		"NoClassNamed":         {"without a class, naming a provider", service(with("provider", "openstack")), scoped(isDefault), serve("openstack", Finalizer, SharedFinalizer)},
		"NoClassNamedUnknown":  {"naming one that is not in service", service(with("provider", "x")), scoped(isDefault), serve("local", Finalizer, SharedFinalizer)},
		"NoClassServed":        {"who serves it already goes on", service(with("provider", "local")), scoped(func(s *Scope) { isDefault(s); recorded("openstack")(s) }), serve("openstack", Finalizer, SharedFinalizer)},
		"NotSelected":          {"the selectors leave it out", service(class("fairlead.dev/local")), scoped(func(s *Scope) { s.Selected = false }), ignore},
		"DeselectedGuarded":    {"they do so now, but did not before", service(class("fairlead.dev/local"), guarded), scoped(func(s *Scope) { s.Selected = false }), clean},
		"Deleted":              {"deleted before it was served", service(class("fairlead.dev/local"), deleted), scope, ignore},
		"DeletedGuarded":       {"deleted", service(class("fairlead.dev/local"), deleted, guarded), scope, clean},
		"DeletedRecorded":      {"the finalizer was taken off by hand", service(class("fairlead.dev/local"), deleted), scoped(recorded("local")), clean},
		"OtherTypeGuarded":     {"no load balancer any more", service(cluster, guarded), scope, clean},
		"OtherTypeRecorded":    {"between two writes", service(cluster), scoped(recorded("local")), clean},
		"OtherTypeSharedOnly":  {"somebody else's guard is none of ours", service(cluster, shared), scope, ignore},
		"OtherClassGuarded":    {"it lost our class and got another between two looks", service(class("example.org/lb"), guarded), scope, clean},
		"OtherClassRecorded":   {"by record as well", service(class("example.org/lb")), scoped(recorded("local")), clean},
		"NoClassAnyMore":       {"we were the default and are not any more", service(guarded), scope, clean},
		"Gone":                 {"nothing is there and nothing was", nil, scope, ignore},
		"GoneRecorded":         {"the Service went without us", nil, scoped(recorded("local")), clean},
		"ExternalName":         {"another type, without families", service(func(svc *corev1.Service) { svc.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName} }), scoped(isDefault), ignore},
		"ExternalNameRecorded": {"what turned into one is cleaned up", service(func(svc *corev1.Service) { svc.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName} }), scoped(recorded("local")), clean},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ClaimOf(tc.svc, tc.scope)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestFingerprintNoticesEachSpecField sets each field of a spec, one at a time.
func TestFingerprintNoticesEachSpecField(t *testing.T) {
	before := Fingerprint(&corev1.Service{})
	spec := reflect.TypeFor[corev1.ServiceSpec]()
	for i := range spec.NumField() {
		svc := &corev1.Service{}
		fill(reflect.ValueOf(&svc.Spec).Elem().Field(i))
		if Fingerprint(svc) == before {
			t.Errorf("spec.%s is not noticed", spec.Field(i).Name)
		}
	}
}

// fill makes a value differ from its zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32:
		v.SetInt(7)
	default:
		v.SetString("x")
	}
}

func TestFingerprint(t *testing.T) {
	base := Fingerprint(service())
	cases := map[string]struct {
		reason string
		svc    *corev1.Service
		same   bool
	}{
		"Same":    {"equal Services", service(), true},
		"Option":  {"an option that is read", service(with("proxy-protocol", "v2")), false},
		"Alias":   {"an option by its old name", service(func(s *corev1.Service) { s.Annotations["metallb.io/address-pool"] = "x" }), false},
		"Output":  {"what we write", service(with("observed", "abc")), true},
		"Foreign": {"an annotation that nobody reads", service(func(s *corev1.Service) { s.Annotations["example.org/x"] = "y" }), true},
		"Status": {"the status", service(func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		}), true},
		"Metadata": {"finalizers, labels, versions", service(func(s *corev1.Service) {
			s.Finalizers, s.Labels, s.ResourceVersion = []string{Finalizer}, map[string]string{"a": "b"}, "9"
		}), true},
		"TargetPort":    {"a field deep in the spec", service(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(9) }), false},
		"NoAnnotations": {"none is the same as an empty map", service(func(s *corev1.Service) { s.Annotations = nil }), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Fingerprint(tc.svc) == base; got != tc.same {
				t.Errorf("%s: same %v, want %v", tc.reason, got, tc.same)
			}
		})
	}
}

// BenchmarkUnchanged is what deciding costs in a pass over a Service with some
// options and a hundred endpoints.
func BenchmarkUnchanged(b *testing.B) {
	svc := service(everyOption)
	var list []discoveryv1.Endpoint
	for i := range 100 {
		list = append(list, endpointAt(fmt.Sprintf("10.0.0.%d", i+1), "one", up()))
	}
	src := Source{Service: svc, Slices: []discoveryv1.EndpointSlice{slice(list...)}, Provider: "local", Protocols: []model.Protocol{model.TCP}}
	b.Run("Service", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Service(src)
		}
	})
	b.Run("Fingerprint", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Fingerprint(svc)
		}
	})
	b.Run("Parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			annotation.Parse(annotation.Input{Annotations: svc.Annotations, Provider: "local"})
		}
	})
}
