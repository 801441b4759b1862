package cli

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
)

func TestAddresses(t *testing.T) {
	at := func(minutes int) metav1.Time {
		return metav1.NewTime(noon().Add(time.Duration(minutes) * time.Minute))
	}
	record := func(name string, addresses ...string) v1alpha1.ServiceRecord {
		return v1alpha1.ServiceRecord{
			ObjectMeta: metav1.ObjectMeta{Name: "shop." + name, CreationTimestamp: at(-90)},
			Spec:       v1alpha1.ServiceRecordSpec{ServiceRef: v1alpha1.ServiceRef{Namespace: "shop", Name: name}, Addresses: addresses, Pool: "local"},
		}
	}
	reservation := func(address string, until int) v1alpha1.AddressReservation {
		return v1alpha1.AddressReservation{Spec: v1alpha1.AddressReservationSpec{
			Address: address, For: v1alpha1.ReservedFor{Namespace: "shop", Name: "gone"}, Since: at(-4), Until: at(until),
		}}
	}
	c := &fakeCluster{
		records:      []v1alpha1.ServiceRecord{record("web", "127.77.0.10", "fd00::1"), record("api", "127.77.0.9"), record("pending")},
		reservations: []v1alpha1.AddressReservation{reservation("127.77.0.11", 6), reservation("127.77.0.2", -1)},
	}
	golden(t, "addresses/plain.txt", run(t, c, "", "addresses").text())
	golden(t, "addresses/wide.txt", run(t, c, "", "addresses", "-o", "wide").text())
	golden(t, "addresses/json.txt", run(t, c, "", "addresses", "-o", "json").text())
	if all, own := run(t, c, "", "addresses"), run(t, c, "", "addresses", "-n", "shop"); own != all {
		t.Errorf("-n of the only namespace: %+v, not %+v", own, all)
	}
	if none, other := run(t, &fakeCluster{}, "", "addresses"), run(t, c, "", "addresses", "-n", "other"); other != none {
		t.Errorf("-n of another namespace: %+v, not %+v", other, none)
	}
	if all, everywhere := run(t, c, "", "addresses"), run(t, c, "", "addresses", "-n", "other", "-A"); everywhere != all {
		t.Errorf("-A: %+v, not %+v", everywhere, all)
	}
	c.services = []corev1.Service{serviceNamed("web", func(s *corev1.Service) { s.Labels = map[string]string{"tier": "edge"} }), serviceNamed("api")}
	golden(t, "addresses/labelled.txt", run(t, c, "", "addresses", "-l", "tier=edge").text())
	c.fail = map[string]error{"Services": forbidden("services")}
	if got := run(t, c, "", "addresses", "-l", "tier=edge"); got.out != "" || got.code != ExitFailed {
		t.Errorf("without the right to list Services: %+v", got)
	}
	if got := run(t, c, "", "addresses", "-l", "=="); got.code != ExitUsage {
		t.Errorf("no labels: %+v", got)
	}
	golden(t, "addresses/none.txt", run(t, &fakeCluster{}, "", "addresses").text())
	c.fail = map[string]error{"Records": forbidden("servicerecords.fairlead.dev")}
	golden(t, "addresses/forbidden.txt", run(t, c, "", "addresses").text())
	c.fail = map[string]error{"Reservations": forbidden("addressreservations.fairlead.dev")}
	if got := run(t, c, "", "addresses"); got.out != "" || got.code != ExitFailed {
		t.Errorf("half a list was printed: %+v", got)
	}
}
