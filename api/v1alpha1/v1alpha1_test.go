package v1alpha1

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestReservationName(t *testing.T) {
	cases := map[string]struct {
		reason string
		addr   netip.Addr
		want   string
	}{
		"IPv4": {
			reason: "a dotted quad is a valid object name as it is",
			addr:   netip.MustParseAddr("127.77.0.4"),
			want:   "127.77.0.4",
		},
		"IPv6": {
			reason: "colons are not allowed in names, and :: could stand at the end",
			addr:   netip.MustParseAddr("fd00::1"),
			want:   "fd00-0000-0000-0000-0000-0000-0000-0001",
		},
		"IPv6 that ends in zeros": {
			reason: "a name must end in a letter or digit",
			addr:   netip.MustParseAddr("2001:db8::"),
			want:   "2001-0db8-0000-0000-0000-0000-0000-0000",
		},
		"IPv4-mapped": {
			reason: "one address has one name",
			addr:   netip.MustParseAddr("::ffff:192.0.2.7"),
			want:   "192.0.2.7",
		},
		"zone": {
			reason: "a percent sign is not allowed in names",
			addr:   netip.MustParseAddr("fe80::1%eth0"),
			want:   "fe80-0000-0000-0000-0000-0000-0000-0001",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ReservationName(tc.addr)
			if got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
			if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 {
				t.Errorf("%q is no object name: %v", got, problems)
			}
		})
	}
	if got := ReservationName(netip.Addr{}); got != "" {
		t.Errorf("the zero Addr has the name %q, want none", got)
	}
}

func TestRecordName(t *testing.T) {
	longest := strings.Repeat("n", validation.DNS1123LabelMaxLength)
	cases := map[string]struct {
		reason          string
		namespace, name string
		want            string
	}{
		"usual":   {"namespace and name are read off the name", "shop", "web", "shop.web"},
		"digit":   {"service names may begin with a digit since 1.36 (KEP-5311)", "shop", "1web", "shop.1web"},
		"longest": {"the longest names together stay below the limit of 253", longest, longest, longest + "." + longest},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := RecordName(tc.namespace, tc.name)
			if got != tc.want {
				t.Errorf("%s: got %q, want %q", tc.reason, got, tc.want)
			}
			if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 {
				t.Errorf("%q is no object name: %v", got, problems)
			}
		})
	}
}

// TestRoundTrip proves that the scheme knows the kinds by their names and that
// nothing is lost between the value, its text and the value again.
func TestRoundTrip(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codec := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Strict: true})
	since := metav1.NewTime(time.Date(2026, 12, 1, 14, 22, 0, 0, time.UTC).Local())
	meta := metav1.TypeMeta{APIVersion: "fairlead.dev/v1alpha1"}
	record, reservation := meta, meta
	record.Kind, reservation.Kind = "ServiceRecord", "AddressReservation"
	cases := map[string]struct {
		reason string
		object runtime.Object
	}{
		"full record": {
			reason: "every field is remembered",
			object: &ServiceRecord{
				TypeMeta:   record,
				ObjectMeta: metav1.ObjectMeta{Namespace: "fairlead-system", Name: "shop.web"},
				Spec: ServiceRecordSpec{
					ServiceRef:      ServiceRef{Namespace: "shop", Name: "web", UID: "u-1"},
					Provider:        "local",
					Class:           "fairlead.dev/local",
					Addresses:       []string{"127.77.0.4", "fd00::1"},
					Pool:            "loopback",
					Share:           Share{Key: "k", Namespace: "shop", Backend: "app=web"},
					Ports:           []Port{{Protocol: "TCP", Port: 80}, {Protocol: "UDP", Port: 80}},
					AcceptedOptions: map[string]string{"proxy-protocol": "v2"},
					Written:         map[string]string{"fairlead.dev/load-balancer-address": "127.77.0.4"},
					Backend:         map[string]string{"load-balancer-id": "a1"},
				},
			},
		},
		"least record": {
			reason: "what is not known is not written, as null or otherwise",
			object: &ServiceRecord{
				TypeMeta: record,
				Spec:     ServiceRecordSpec{ServiceRef: ServiceRef{Namespace: "shop", Name: "web", UID: "u-1"}, Provider: "local"},
			},
		},
		"reservation": {
			reason: "times are kept to the second",
			object: &AddressReservation{
				TypeMeta:   reservation,
				ObjectMeta: metav1.ObjectMeta{Namespace: "fairlead-system", Name: "127.77.0.4"},
				Spec: AddressReservationSpec{
					Address: "127.77.0.4",
					For:     ReservedFor{Namespace: "shop", Name: "web"},
					Since:   since,
					Until:   metav1.NewTime(since.Add(10 * time.Minute)),
					Pool:    "loopback",
					Reason:  "Released",
				},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			text, err := runtime.Encode(codec, tc.object)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "null") {
				t.Errorf("null is no value of the schema: %s", text)
			}
			back, err := runtime.Decode(codec, text)
			if err != nil {
				t.Fatalf("decoding %s: %v", text, err)
			}
			if diff := cmp.Diff(tc.object, back); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.object, tc.object.DeepCopyObject()); diff != "" {
				t.Errorf("a copy is equal (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCopyIsApart proves that a copy shares nothing with its original.
func TestCopyIsApart(t *testing.T) {
	record := &ServiceRecord{Spec: ServiceRecordSpec{
		Addresses: []string{"127.77.0.4"},
		Ports:     []Port{{Protocol: "TCP", Port: 80}},
		Written:   map[string]string{"a": "1"},
	}}
	dup := record.DeepCopy()
	dup.Spec.Addresses[0], dup.Spec.Ports[0].Port, dup.Spec.Written["a"] = "127.77.0.5", 81, "2"
	if got := record.Spec; got.Addresses[0] != "127.77.0.4" || got.Ports[0].Port != 80 || got.Written["a"] != "1" {
		t.Errorf("writing to a copy changed the original: %+v", got)
	}
}
