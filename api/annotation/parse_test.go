package annotation

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestMessages(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     Input
		want   Problem
	}{
		"duration instead of milliseconds": {
			reason: "the conversion is offered, and the default served",
			in:     Input{Annotations: map[string]string{ourKey + "timeout-client-data": "70s"}, Provider: Local},
			want: Problem{
				Option: TimeoutClientData, Key: ourKey + "timeout-client-data", Value: "70s", Kind: Invalid, Suggestion: "70000",
				Message: `timeout-client-data: "70s" is not milliseconds; did you mean "70000"? Still serving with the default.`,
			},
		},
		"held": {
			reason: "the last accepted value is served",
			in: Input{
				Annotations: map[string]string{ourKey + "timeout-client-data": "70s"}, Provider: Local,
				Accepted: map[Name]string{TimeoutClientData: "50000"},
			},
			want: Problem{
				Option: TimeoutClientData, Key: ourKey + "timeout-client-data", Value: "70s", Kind: Invalid, Suggestion: "70000", Held: true,
				Message: `timeout-client-data: "70s" is not milliseconds; did you mean "70000"? Still serving with the last accepted value 50000.`,
			},
		},
		"nothing near": {
			reason: "what is allowed is said",
			in:     Input{Annotations: map[string]string{ourKey + "connection-limit": "0"}},
			want: Problem{
				Option: ConnectionLimit, Key: ourKey + "connection-limit", Value: "0", Kind: Invalid,
				Message: `connection-limit: "0" is out of range; allowed: -1 (no limit) or 1 to 2147483647. Still serving with the default.`,
			},
		},
		"exposure of a new Service": {
			reason: "a new Service waits until it is known who may reach it",
			in:     Input{Annotations: map[string]string{ourKey + "source-ranges": "10.0.0.0"}, New: true},
			want: Problem{
				Option: SourceRanges, Key: ourKey + "source-ranges", Value: "10.0.0.0", Kind: Invalid, Suggestion: "10.0.0.0/32", Exposure: true,
				Message: `source-ranges: "10.0.0.0" holds "10.0.0.0", which is no CIDR; did you mean "10.0.0.0/32"? Nothing is served until it is mended.`,
			},
		},
		"exposure of a served Service": {
			reason: "a Service that is served goes on as it was",
			in:     Input{Annotations: map[string]string{ourKey + "source-ranges": "x"}, Accepted: map[Name]string{SourceRanges: "10.0.0.0/8"}},
			want: Problem{
				Option: SourceRanges, Key: ourKey + "source-ranges", Value: "x", Kind: Invalid, Held: true,
				Message: `source-ranges: "x" holds "x", which is no CIDR; allowed: CIDRs separated by commas, such as 192.0.2.0/24. Still serving with the last accepted value 10.0.0.0/8.`,
			},
		},
		"old meaning": {
			reason: "the neutral way to say it is named",
			in:     Input{Annotations: map[string]string{internalKey: "True"}, New: true},
			want: Problem{
				Option: Internal, Key: internalKey, Value: "True", Kind: OldMeaning, Suggestion: "true",
				Message: `service.beta.kubernetes.io/openstack-internal-load-balancer: "True" counts as not set under this key, as it always has; fairlead.dev/internal can say "true".`,
			},
		},
		"conflict": {
			reason: "who won is said",
			in:     Input{Annotations: map[string]string{ourKey + "proxy-protocol": "v2", occmKey + "proxy-protocol": "v1"}},
			want: Problem{
				Option: ProxyProtocol, Key: occmKey + "proxy-protocol", Value: "v1", Kind: Conflict,
				Message: `proxy-protocol: "v2" of fairlead.dev/proxy-protocol wins over "v1" of loadbalancer.openstack.org/proxy-protocol; keep one of the two.`,
			},
		},
		"not applicable": {
			reason: "the Service stays accepted, but is told",
			in:     Input{Annotations: map[string]string{occmKey + "x-forwarded-for": "true"}, Provider: Local, New: true},
			want: Problem{
				Option: XForwardedFor, Key: occmKey + "x-forwarded-for", Value: "true", Kind: NotApplicable,
				Message: `loadbalancer.openstack.org/x-forwarded-for: the provider local has no use for it, so "true" has no effect. Connections are relayed as they are: HTTP is not read and TLS is not ended.`,
			},
		},
		"not yet": {
			reason: "a missing feature is named as such",
			in:     Input{Annotations: map[string]string{ourKey + "weights": "equal"}, Provider: Local},
			want: Problem{
				Option: Weights, Key: ourKey + "weights", Value: "equal", Kind: NotYet,
				Message: `weights: the provider local does not honour it yet, so "equal" has no effect. Still serving with the default.`,
			},
		},
		"not yet, and about exposure": {
			reason: "a new Service that asks to be protected is not served unprotected",
			in:     Input{Annotations: map[string]string{ourKey + "source-ranges": "10.0.0.0/8"}, Provider: BareMetal, New: true},
			want: Problem{
				Option: SourceRanges, Key: ourKey + "source-ranges", Value: "10.0.0.0/8", Kind: NotYet, Exposure: true,
				Message: `source-ranges: the provider bare-metal does not honour it yet, so "10.0.0.0/8" has no effect. Nothing is served until it is mended.`,
			},
		},
		"unknown": {
			reason: "the nearest key is named",
			in:     Input{Annotations: map[string]string{ourKey + "drain-timeuot": "5"}},
			want: Problem{
				Key: ourKey + "drain-timeuot", Value: "5", Kind: Unknown, Suggestion: ourKey + "drain-timeout",
				Message: `fairlead.dev/drain-timeuot: nobody knows this annotation, so it has no effect; did you mean fairlead.dev/drain-timeout?`,
			},
		},
		"no such port": {
			reason: "the same number of the other protocol is a good guess",
			in:     Input{Annotations: map[string]string{ourKey + "proxy-protocol": "53=v2"}, Ports: []Port{{"UDP", 53, "dns"}}},
			want: Problem{
				Option: ProxyProtocol, Key: ourKey + "proxy-protocol", Value: "53=v2", Kind: Unmatched, Suggestion: "UDP/53=v2",
				Message: `proxy-protocol: "53=v2" names port TCP/53, which the Service does not have; did you mean UDP/53? The other ports are served as asked.`,
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ignoreAllowed := cmpopts.IgnoreFields(Problem{}, "Allowed")
			if d := cmp.Diff([]Problem{c.want}, Parse(c.in).Problems, ignoreAllowed); d != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, d)
			}
		})
	}
}

func TestBadValueConcernsItsOptionOnly(t *testing.T) {
	r := Parse(Input{
		Annotations: map[string]string{
			ourKey + "proxy-protocol": "nonsense", ourKey + "connection-limit": "10", ourKey + "paused": "maybe", ourKey + "lb-method": "SOURCE_IP",
		},
		Accepted: map[Name]string{ProxyProtocol: "v1,UDP/53=v2", LBMethod: "ROUND_ROBIN"},
	})
	want := map[Name]string{ProxyProtocol: "v1,UDP/53=v2", ConnectionLimit: "10", LBMethod: "SOURCE_IP"}
	if d := cmp.Diff(want, r.Accepted); d != "" {
		t.Errorf("accepted (-want +got):\n%s", d)
	}
	if len(r.Problems) != 2 || !r.Problems[1].Held || r.Problems[0].Held {
		t.Errorf("problems %+v, want paused at its default and proxy-protocol held", r.Problems)
	}
	if v, _ := r.Values.For(Port{"UDP", 53, ""}).Text(ProxyProtocol); v != "v2" {
		t.Errorf("the held value of UDP/53 is %q, want v2", v)
	}
}

func TestAcceptedThatIsNoValueIsNotHeld(t *testing.T) {
	r := Parse(Input{Annotations: map[string]string{ourKey + "lb-method": "x"}, Accepted: map[Name]string{LBMethod: "GONE"}})
	if len(r.Accepted) > 0 || len(r.Problems) != 1 || r.Problems[0].Held {
		t.Errorf("accepted %v with %+v, want the default", r.Accepted, r.Problems)
	}
}

func TestRemovedOptionIsForgotten(t *testing.T) {
	r := Parse(Input{Accepted: map[Name]string{LBMethod: "SOURCE_IP"}})
	if len(r.Accepted)+len(r.Values.Names()) > 0 {
		t.Errorf("an option that nobody sets is in force: %v", r.Accepted)
	}
}

// samples are two accepted values of each type, in canonical form.
func samples(o Option) []string {
	switch o.Type {
	case Bool:
		return []string{"true", "false"}
	case Int, Milliseconds, Seconds:
		return []string{fmt.Sprint(o.Min), fmt.Sprint(o.Max)}
	case Enum:
		return o.Allowed
	case Hostname:
		return []string{"a.example.com", "b"}
	case Selector:
		return []string{"a=b,c", "example.com/d="}
	case Addresses:
		return []string{"192.0.2.1", "2001:db8::1,192.0.2.1"}
	case Prefixes:
		return []string{"0.0.0.0/0", "10.0.0.0/8,2001:db8::/32"}
	case List:
		return []string{"a", "a,b"}
	case Text, ID:
	}
	return []string{"a", "b-2"}
}

func TestEveryOptionRoundTrips(t *testing.T) {
	for _, o := range Table() {
		if o.Direction == Out {
			continue
		}
		for _, v := range samples(o) {
			r := Parse(Input{Annotations: map[string]string{o.Name.Key(): v}})
			if len(r.Problems) > 0 || r.Accepted[o.Name] != v {
				t.Errorf("%s: %q is accepted as %q with %v", o.Name, v, r.Accepted[o.Name], r.Problems)
			}
			held := Parse(Input{Annotations: map[string]string{o.Name.Key(): "\x00 ,"}, Accepted: r.Accepted})
			if o.Type != Text && !held.Values.Equal(r.Values) {
				t.Errorf("%s: %q is held as %v", o.Name, v, held.Accepted)
			}
			if got, ok := r.Values.Text(o.Name); !ok || got != v {
				t.Errorf("%s: Text returns %q, %v, want %q", o.Name, got, ok, v)
			}
		}
	}
}

func TestProvidersAreAskedOnlyWhenKnown(t *testing.T) {
	annotations := map[string]string{}
	for _, o := range Table() {
		if o.Direction != Out {
			annotations[o.Name.Key()] = samples(o)[0]
		}
	}
	if r := Parse(Input{Annotations: annotations}); len(r.Problems) > 0 {
		t.Errorf("without a provider: %v", r.Problems)
	}
	for _, p := range Providers() {
		r := Parse(Input{Annotations: annotations, Provider: p, New: true})
		problems := map[Name]Kind{}
		for _, x := range r.Problems {
			problems[x.Option] = x.Kind
		}
		for _, o := range Table() {
			if o.Direction == Out {
				continue
			}
			state := o.On(p).State
			want := map[State]Kind{Supported: "", Planned: NotYet, Unused: NotApplicable}[state]
			if state == Planned && samples(o)[0] == o.Default {
				want = "" // it asks for what is done anyway
			}
			if _, accepted := r.Accepted[o.Name]; problems[o.Name] != want || accepted != (state == Supported) {
				t.Errorf("%s on %s: problem %q and accepted %v, want %q", o.Name, p, problems[o.Name], accepted, want)
			}
		}
	}
}

// TestOldValuesOfPlannedOptions: what a takeover brings along for an option that
// the provider does not honour yet is refused only where it asks for something.
func TestOldValuesOfPlannedOptions(t *testing.T) {
	cases := map[string]struct {
		reason string
		key    string
		value  string
		want   Kind
	}{
		"OldFalse":       {reason: "false is what is done anyway", key: occmPrefix + "keep-floatingip", value: "false"},
		"OldTrue":        {reason: "true asks for what is not there", key: occmPrefix + "keep-floatingip", value: "true", want: NotYet},
		"OldCapitals":    {reason: "its controller reads TRUE as the default", key: occmPrefix + "keep-floatingip", value: "TRUE", want: OldMeaning},
		"NeutralFalse":   {reason: "false is what is done anyway", key: KeepAddress.Key(), value: "false"},
		"NeutralInvalid": {reason: "what does not parse is told as such", key: KeepAddress.Key(), value: "perhaps", want: Invalid},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := Parse(Input{Annotations: map[string]string{tc.key: tc.value}, Provider: Local, New: true})
			var got Kind
			if len(r.Problems) > 0 {
				got = r.Problems[0].Kind
			}
			if got != tc.want || len(r.Problems) > 1 || len(r.Accepted) > 0 {
				t.Errorf("%s: got %+v, want kind %q", tc.reason, r.Problems, tc.want)
			}
		})
	}
}

func TestParseIsDeterministic(t *testing.T) {
	in := Input{Annotations: map[string]string{}, Ports: ports(), New: true}
	for _, o := range Table() {
		for _, k := range o.Keys() {
			in.Annotations[k] = "nonsense,"
			in.Annotations[k+"x"] = "1"
		}
	}
	first := Parse(in)
	if len(first.Problems) < len(in.Annotations)/2 {
		t.Fatalf("only %d problems", len(first.Problems))
	}
	for range 5 {
		in.Annotations = maps.Clone(in.Annotations)
		if d := cmp.Diff(first.Problems, Parse(in).Problems); d != "" {
			t.Fatalf("another order (-first +then):\n%s", d)
		}
	}
	sorted := slices.IsSortedFunc(first.Problems, func(a, b Problem) int {
		return slices.Compare([]string{string(a.Option), a.Key}, []string{string(b.Option), b.Key})
	})
	if !sorted {
		t.Error("problems are not sorted by option and key")
	}
}
