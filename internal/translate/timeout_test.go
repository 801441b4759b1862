package translate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// TestOwnTimeouts proves that the time-outs that Octavia does not know reach
// the model, and that a drain time of zero is told from none.
func TestOwnTimeouts(t *testing.T) {
	cases := map[string]struct {
		reason      string
		annotations map[string]string
		want        model.Timeouts
	}{
		"None": {reason: "the provider's default"},
		"Both": {
			reason:      "milliseconds, as in every time-out",
			annotations: map[string]string{"fairlead.dev/udp-idle-timeout": "5000", "fairlead.dev/drain-timeout": "1500"},
			want:        model.Timeouts{UDPIdle: 5 * time.Second, Drain: 1500 * time.Millisecond},
		},
		"AtOnce": {
			reason:      "zero is a wish, not the absence of one",
			annotations: map[string]string{"fairlead.dev/drain-timeout": "0"},
			want:        model.Timeouts{Drain: model.CutAtOnce},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := Service(Source{
				Service: &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations},
					Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP}}},
				},
				Provider: annotation.Local, Protocols: []model.Protocol{model.UDP},
			})
			if len(r.Problems) > 0 {
				t.Errorf("%s: problems %+v", tc.reason, r.Problems)
			}
			if got := r.Balancer.Listeners[0].Timeouts; got != tc.want {
				t.Errorf("%s: %+v, want %+v", tc.reason, got, tc.want)
			}
		})
	}
}

// TestOptionsOfTheProxy proves that options which only Fairlead's own proxy has
// reach the model, and stay out of it when nobody set them.
func TestOptionsOfTheProxy(t *testing.T) {
	listener := func(annotations map[string]string) model.Listener {
		r := Service(Source{
			Service: &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			},
			Provider: annotation.Local, Protocols: []model.Protocol{model.TCP},
		})
		if len(r.Problems) > 0 {
			t.Errorf("problems %+v", r.Problems)
		}
		return r.Balancer.Listeners[0]
	}
	got := listener(map[string]string{
		"fairlead.dev/connection-limit-mode": "refuse", "fairlead.dev/proxy-protocol": "v2", "fairlead.dev/proxy-protocol-unique-id": "true",
	})
	if got.LimitMode != model.LimitRefuse || !got.Pool.UniqueID {
		t.Errorf("mode %q, id %v; want what was asked for", got.LimitMode, got.Pool.UniqueID)
	}
	if got := listener(nil); got.LimitMode != "" || got.Pool.UniqueID {
		t.Errorf("mode %q, id %v without annotations", got.LimitMode, got.Pool.UniqueID)
	}
}
