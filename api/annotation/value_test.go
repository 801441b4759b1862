package annotation

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAccessors(t *testing.T) {
	v := Parse(Input{Annotations: map[string]string{
		ourKey + "paused":               "true",
		ourKey + "connection-limit":     "-1",
		ourKey + "timeout-client-data":  "1500",
		ourKey + "health-monitor-delay": "7,443=9",
		ourKey + "address":              "2001:db8::1,192.0.2.1",
		ourKey + "source-ranges":        "10.0.0.0/8",
		ourKey + "pool-tags":            "a, b",
		ourKey + "flavor-id":            "",
	}}).Values
	if b, ok := v.Bool(Paused); !b || !ok {
		t.Errorf("Bool = %v, %v", b, ok)
	}
	if n, ok := v.Int(ConnectionLimit); n != -1 || !ok {
		t.Errorf("Int = %v, %v", n, ok)
	}
	if d, ok := v.Duration(TimeoutClientData); d != 1500*time.Millisecond || !ok {
		t.Errorf("Duration of milliseconds = %v, %v", d, ok)
	}
	if d, ok := v.Duration(HealthMonitorDelay); d != 7*time.Second || !ok {
		t.Errorf("Duration of seconds = %v, %v", d, ok)
	}
	if d, ok := v.For(Port{Protocol: "TCP", Number: 443}).Duration(HealthMonitorDelay); d != 9*time.Second || !ok {
		t.Errorf("Duration of a port = %v, %v", d, ok)
	}
	addrs, ok := v.Addrs(Address)
	if len(addrs) != 2 || addrs[0] != netip.MustParseAddr("2001:db8::1") || !ok {
		t.Errorf("Addrs = %v, %v", addrs, ok)
	}
	if p, ok := v.Prefixes(SourceRanges); len(p) != 1 || p[0] != netip.MustParsePrefix("10.0.0.0/8") || !ok {
		t.Errorf("Prefixes = %v, %v", p, ok)
	}
	tags, ok := v.List(PoolTags)
	if d := cmp.Diff([]string{"a", "b"}, tags); d != "" || !ok {
		t.Errorf("List = %v, %v", tags, ok)
	}
	if s, ok := v.Text(FlavorID); s != "" || !ok {
		t.Errorf("Text of an empty value that is set = %q, %v", s, ok)
	}
	if d := cmp.Diff([]Name{Address, ConnectionLimit, FlavorID, HealthMonitorDelay, Paused, PoolTags, SourceRanges, TimeoutClientData}, v.Names()); d != "" {
		t.Errorf("Names (-want +got):\n%s", d)
	}
}

func TestAccessorsOfWhatIsNotThere(t *testing.T) {
	v := Parse(Input{Annotations: map[string]string{ourKey + "paused": "true", ourKey + "proxy-protocol": "443=v1"}}).Values
	for what, set := range map[string]bool{
		"another type":                second(v.Int(Paused)),
		"an absent bool":              second(v.Bool(Internal)),
		"an absent list":              second(v.List(PoolTags)),
		"absent addresses":            second(v.Addrs(Address)),
		"absent prefixes":             second(v.Prefixes(SourceRanges)),
		"an absent duration":          second(v.Duration(DrainTimeout)),
		"only a port's value":         second(v.Text(ProxyProtocol)),
		"a bool as a duration":        second(v.Duration(Paused)),
		"the zero value":              second(Values{}.Text(Paused)),
		"the zero value, of one port": second(Values{}.For(Port{}).Text(Paused)),
	} {
		if set {
			t.Errorf("%s is reported as set", what)
		}
	}
	if same := v.For(Port{}); (Values{}).Equal(v) || !same.Equal(v.For(Port{})) {
		t.Error("Equal does not compare")
	}
}

func second[T any](_ T, set bool) bool { return set }
