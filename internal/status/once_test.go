package status

import (
	"strings"
	"testing"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// TestSaidOnce: a sentence that has been said, or that another makes untrue,
// is left out.
func TestSaidOnce(t *testing.T) {
	cases := map[string]struct {
		reason    string
		in        Input
		condition string
		phrase    string
		want      int
	}{
		"Blocked": {
			reason:    "the problem says itself that nothing is served",
			in:        Input{Blocked: true, Problems: []annotation.Problem{{Kind: annotation.Invalid, Message: "internal: no. Nothing is served until it is mended."}}},
			condition: Accepted, phrase: "Nothing is served", want: 1,
		},
		"BlockedByAnother": {
			reason:    "a problem that does not say it gets it said",
			in:        Input{Blocked: true, Problems: []annotation.Problem{{Kind: annotation.Invalid, Message: "internal: no."}}},
			condition: Accepted, phrase: "Nothing is served", want: 1,
		},
		"NoNodes": {
			reason: "where no node is eligible, the selector and the pods are not to blame",
			in: Input{
				Want: model.Balancer{Listeners: []model.Listener{{Port: model.Port{Protocol: model.TCP, Number: 80}}}},
				Note: "No node is eligible.",
			},
			condition: Programmed, phrase: "ready endpoints", want: 0,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, c := range Of(tc.in).Conditions {
				if n := strings.Count(c.Message, tc.phrase); c.Type == tc.condition && n != tc.want {
					t.Errorf("%s: %q stands %d times in %q", tc.reason, tc.phrase, n, c.Message)
				}
			}
		})
	}
}
