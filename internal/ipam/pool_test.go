package ipam

import (
	"strings"
	"testing"
)

func TestParsePool(t *testing.T) {
	cases := map[string]struct {
		reason string
		ranges []string
		want   string
	}{
		"Ranges":   {reason: "prefixes and runs make one pool", ranges: []string{"127.77.0.0/24", "127.78.0.1-127.78.0.9"}},
		"Garbage":  {reason: "a text that is no range is named", ranges: []string{"127.77.0.0/24", "here"}, want: `reading range "here"`},
		"Overlaps": {reason: "an address must not be given out twice", ranges: []string{"127.77.0.0/24", "127.77.0.9-127.77.1.9"}, want: "127.77.0."},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pool, err := ParsePool("local", tc.ranges)
			switch {
			case tc.want == "" && (err != nil || len(pool.Ranges) != len(tc.ranges) || !pool.AutoAssign):
				t.Errorf("%s: got %+v, %v", tc.reason, pool, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s: error %v, want one with %q", tc.reason, err, tc.want)
			}
		})
	}
}
