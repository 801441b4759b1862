package annotation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const (
	occmKey = "loadbalancer.openstack.org/"
	ourKey  = "fairlead.dev/"
	newKey  = "metallb.io/"
	oldKey  = "metallb.universe.tf/"
)

func TestDialects(t *testing.T) {
	type problem struct {
		Option     Name
		Kind       Kind
		Suggestion string
	}
	cases := map[string]struct {
		reason   string
		in       map[string]string
		spec     map[Name]string
		accepted map[Name]string
		problems []problem
	}{
		"neutral bool": {
			reason:   "neutral booleans are strconv.ParseBool's",
			in:       map[string]string{ourKey + "internal": "True", ourKey + "paused": "0"},
			accepted: map[Name]string{Internal: "true", Paused: "false"},
		},
		"neutral bool misspelled": {
			reason:   "anything else is a mistake, with a guess",
			in:       map[string]string{ourKey + "internal": "yes"},
			problems: []problem{{Internal, Invalid, "true"}},
		},
		"neutral bool with blanks": {
			reason:   "blanks are not part of a boolean",
			in:       map[string]string{ourKey + "paused": " true"},
			problems: []problem{{Paused, Invalid, "true"}},
		},
		"neutral empty": {
			reason:   "an empty value where none is meant is a mistake",
			in:       map[string]string{ourKey + "internal": "", ourKey + "source-ranges": "", ourKey + "share": ""},
			problems: []problem{{Internal, Invalid, ""}, {Share, Invalid, ""}, {SourceRanges, Invalid, ""}},
		},
		"neutral milliseconds": {
			reason:   "an integer of milliseconds",
			in:       map[string]string{ourKey + "timeout-client-data": "70000", ourKey + "timeout-tcp-inspect": "0"},
			accepted: map[Name]string{TimeoutClientData: "70000", TimeoutTCPInspect: "0"},
		},
		"neutral duration": {
			reason:   "a Go duration is converted in the suggestion, not taken",
			in:       map[string]string{ourKey + "timeout-client-data": "70s", ourKey + "health-monitor-delay": "2m", ourKey + "udp-idle-timeout": "1us"},
			problems: []problem{{HealthMonitorDelay, Invalid, "120"}, {TimeoutClientData, Invalid, "70000"}, {UDPIdleTimeout, Invalid, ""}},
		},
		"neutral ranges": {
			reason:   "numbers out of range are mistakes",
			in:       map[string]string{ourKey + "connection-limit": "0", ourKey + "timeout-member-data": "0", ourKey + "health-monitor-max-retries": "11", ourKey + "drain-timeout": "99999999999999999999"},
			problems: []problem{{ConnectionLimit, Invalid, ""}, {DrainTimeout, Invalid, ""}, {HealthMonitorMaxRetries, Invalid, ""}, {TimeoutMemberData, Invalid, ""}},
		},
		"neutral unlimited": {
			reason:   "-1 is no limit",
			in:       map[string]string{ourKey + "connection-limit": "-1"},
			accepted: map[Name]string{ConnectionLimit: "-1"},
		},
		"neutral words": {
			reason:   "words are exact, and a near one is suggested",
			in:       map[string]string{ourKey + "lb-method": "round_robin", ourKey + "target-type": "pods", ourKey + "proxy-protocol": "True"},
			problems: []problem{{LBMethod, Invalid, "ROUND_ROBIN"}, {ProxyProtocol, Invalid, "v1"}, {TargetType, Invalid, "pod"}},
		},
		"neutral synonyms": {
			reason:   "OCCM's words for PROXY protocol are known under the neutral key too",
			in:       map[string]string{ourKey + "proxy-protocol": "true"},
			accepted: map[Name]string{ProxyProtocol: "v1"},
		},
		"neutral CIDRs": {
			reason:   "CIDRs are trimmed, sorted, kept in their families, each once",
			in:       map[string]string{ourKey + "source-ranges": " 2001:db8::/32 , 10.0.0.0/8,10.0.0.0/8"},
			accepted: map[Name]string{SourceRanges: "10.0.0.0/8,2001:db8::/32"},
		},
		"neutral mapped CIDR": {
			reason:   "an IPv4 range in IPv6 form means IPv4 clients",
			in:       map[string]string{ourKey + "source-ranges": "::ffff:10.0.0.0/104"},
			accepted: map[Name]string{SourceRanges: "10.0.0.0/8"},
		},
		"neutral mapped CIDR too wide": {
			reason:   "a range around the mapped addresses is of no family",
			in:       map[string]string{ourKey + "source-ranges": "::ffff:0.0.0.0/90"},
			problems: []problem{{SourceRanges, Invalid, ""}},
		},
		"neutral CIDR with host bits": {
			reason:   "strict: the network that was meant is for the user to say",
			in:       map[string]string{ourKey + "source-ranges": "10.1.2.3/8"},
			problems: []problem{{SourceRanges, Invalid, "10.0.0.0/8"}},
		},
		"neutral address for a CIDR": {
			reason:   "an address is no range, but nearly one",
			in:       map[string]string{ourKey + "source-ranges": "10.1.2.3, 10.2.0.0/16"},
			problems: []problem{{SourceRanges, Invalid, "10.1.2.3/32,10.2.0.0/16"}},
		},
		"ranges with an empty part": {
			reason:   "a stray comma must not open the Service to everybody",
			in:       map[string]string{sourceRangesKey: ","},
			problems: []problem{{SourceRanges, Invalid, ""}},
		},
		"neutral ranges with an empty part": {
			reason:   "nor under the neutral key",
			in:       map[string]string{ourKey + "source-ranges": "10.0.0.0/8,"},
			problems: []problem{{SourceRanges, Invalid, ""}},
		},
		"neutral addresses": {
			reason:   "the order is that of the request",
			in:       map[string]string{ourKey + "address": "2001:db8::5, 203.0.113.5"},
			accepted: map[Name]string{Address: "2001:db8::5,203.0.113.5"},
		},
		"neutral addresses of one family": {
			reason:   "at most one of each",
			in:       map[string]string{ourKey + "address": "203.0.113.5,203.0.113.6"},
			problems: []problem{{Address, Invalid, ""}},
		},
		"neutral address with a length": {
			reason:   "a /32 is nearly an address",
			in:       map[string]string{ourKey + "address": "203.0.113.5/32"},
			problems: []problem{{Address, Invalid, "203.0.113.5"}},
		},
		"neutral addresses nobody can have": {
			reason:   "zones, multicast, the unspecified and the broadcast address",
			in:       map[string]string{ourKey + "address": "fe80::1%eth0"},
			problems: []problem{{Address, Invalid, ""}},
		},
		"neutral hostname": {
			reason:   "an API server admits lower-case DNS names only",
			in:       map[string]string{ourKey + "hostname": "Shop.Example.com."},
			problems: []problem{{HostnameName, Invalid, "shop.example.com"}},
		},
		"neutral hostname that is an address": {
			reason:   "an API server refuses addresses as host names",
			in:       map[string]string{ourKey + "hostname": "203.0.113.5"},
			problems: []problem{{HostnameName, Invalid, ""}},
		},
		"neutral selector": {
			reason:   "blanks around the parts do not count",
			in:       map[string]string{ourKey + "node-selector": "role = edge, zone,empty="},
			accepted: map[Name]string{NodeSelector: "role=edge,zone,empty="},
		},
		"neutral selector with an operator": {
			reason:   "only equality and existence are known",
			in:       map[string]string{ourKey + "node-selector": "role!=edge"},
			problems: []problem{{NodeSelector, Invalid, ""}},
		},
		"neutral list": {
			reason:   "an empty part is a mistake",
			in:       map[string]string{ourKey + "pool-tags": "a,, b"},
			problems: []problem{{PoolTags, Invalid, "a,b"}},
		},
		"neutral id": {
			reason:   "ids hold no blanks",
			in:       map[string]string{ourKey + "flavor-id": "f1 ", ourKey + "port-id": "a b"},
			problems: []problem{{FlavorID, Invalid, "f1"}, {PortID, Invalid, ""}},
		},
		"OCCM bool": {
			reason:   "exactly true and false count",
			in:       map[string]string{internalKey: "true", occmKey + "enable-health-monitor": "false"},
			accepted: map[Name]string{Internal: "true", EnableHealthMonitor: "false"},
		},
		"OCCM bool of another spelling": {
			reason:   "anything else means the default, and a condition says how to say it",
			in:       map[string]string{internalKey: "True", occmKey + "keep-floatingip": "1", occmKey + "x-forwarded-for": "", occmKey + "enable-health-monitor": "yes"},
			problems: []problem{{EnableHealthMonitor, OldMeaning, "true"}, {Internal, OldMeaning, "true"}, {KeepAddress, OldMeaning, "true"}, {XForwardedFor, OldMeaning, ""}},
		},
		"OCCM number that is none": {
			reason:   "Atoi's failure means the default",
			in:       map[string]string{occmKey + "timeout-client-data": "70s", occmKey + "connection-limit": "lots", occmKey + "health-monitor-delay": " 5"},
			problems: []problem{{ConnectionLimit, OldMeaning, ""}, {HealthMonitorDelay, OldMeaning, "5"}, {TimeoutClientData, OldMeaning, "70000"}},
		},
		"OCCM zero": {
			reason:   "Octavia takes 0 as no time-out and no limit",
			in:       map[string]string{occmKey + "timeout-member-data": "0", occmKey + "connection-limit": "0", occmKey + "timeout-tcp-inspect": "0"},
			accepted: map[Name]string{TimeoutMemberData: "2147483647", ConnectionLimit: "-1", TimeoutTCPInspect: "0"},
			problems: []problem{{ConnectionLimit, OldMeaning, "-1"}, {TimeoutMemberData, OldMeaning, "2147483647"}},
		},
		"OCCM number that Octavia refuses": {
			reason:   "OCCM passes it on, and its sync fails",
			in:       map[string]string{occmKey + "health-monitor-max-retries": "11", occmKey + "timeout-client-data": "-5"},
			problems: []problem{{HealthMonitorMaxRetries, Invalid, ""}, {TimeoutClientData, Invalid, ""}},
		},
		"OCCM PROXY protocol": {
			reason:   "true is v1",
			in:       map[string]string{occmKey + "proxy-protocol": "true"},
			accepted: map[Name]string{ProxyProtocol: "v1"},
		},
		"OCCM PROXY protocol v2": {
			reason:   "v2 is v2",
			in:       map[string]string{occmKey + "proxy-protocol": "v2"},
			accepted: map[Name]string{ProxyProtocol: "v2"},
		},
		"OCCM PROXY protocol, false": {
			reason:   "false is off, and what is meant",
			in:       map[string]string{occmKey + "proxy-protocol": "false"},
			accepted: map[Name]string{ProxyProtocol: "off"},
		},
		"OCCM PROXY protocol of another spelling": {
			reason:   "anything else is off",
			in:       map[string]string{occmKey + "proxy-protocol": "V2"},
			accepted: map[Name]string{ProxyProtocol: "off"},
			problems: []problem{{ProxyProtocol, OldMeaning, "v2"}},
		},
		"OCCM PROXY protocol per port": {
			reason:   "OCCM knows no ports: the text is off to it",
			in:       map[string]string{occmKey + "proxy-protocol": "443=v2"},
			accepted: map[Name]string{ProxyProtocol: "off"},
			problems: []problem{{ProxyProtocol, OldMeaning, "TCP/443=v2"}},
		},
		"OCCM method that Octavia refuses": {
			reason:   "OCCM sends any word, Octavia refuses it",
			in:       map[string]string{occmKey + "lb-method": "FOO"},
			problems: []problem{{LBMethod, Invalid, ""}},
		},
		"OCCM empty texts that count": {
			reason:   "present but empty stands in the way of the configured value",
			in:       map[string]string{occmKey + "floating-network-id": "", occmKey + "flavor-id": "", occmKey + "node-selector": ""},
			accepted: map[Name]string{FloatingNetworkID: "", FlavorID: "", NodeSelector: ""},
		},
		"OCCM empty texts that do not count": {
			reason: "for these three an empty value falls through to class and configuration",
			in:     map[string]string{occmKey + "subnet-id": "", occmKey + "network-id": "", occmKey + "member-subnet-id": ""},
		},
		"OCCM lists": {
			reason:   "empty parts do not count",
			in:       map[string]string{occmKey + "listener-tags": "a, ,b", occmKey + "pool-tags": ","},
			accepted: map[Name]string{ListenerTags: "a,b"},
		},
		"MetalLB new prefix": {
			reason:   "the present prefix wins over the first one",
			in:       map[string]string{newKey + "address-pool": "a", oldKey + "address-pool": "b"},
			accepted: map[Name]string{AddressPool: "a"},
			problems: []problem{{AddressPool, Conflict, ""}},
		},
		"MetalLB new prefix, empty": {
			reason:   "it wins even when it is empty",
			in:       map[string]string{newKey + "address-pool": "", oldKey + "address-pool": "b"},
			problems: []problem{{AddressPool, Conflict, ""}},
		},
		"MetalLB old prefix": {
			reason:   "it is read when the new one is absent",
			in:       map[string]string{oldKey + "loadBalancerIPs": "203.0.113.5 , 2001:db8::5", oldKey + "allow-shared-ip": "any key"},
			accepted: map[Name]string{Address: "203.0.113.5,2001:db8::5", AllowSharedIP: "any key"},
		},
		"MetalLB addresses": {
			reason:   "an unparsable request is refused",
			in:       map[string]string{newKey + "loadBalancerIPs": "192.0.2.300"},
			problems: []problem{{Address, Invalid, ""}},
		},
		"MetalLB mapped address": {
			reason:   "MetalLB reads a mapped address as IPv4",
			in:       map[string]string{newKey + "loadBalancerIPs": "::ffff:192.0.2.3"},
			accepted: map[Name]string{Address: "192.0.2.3"},
		},
		"MetalLB no request": {
			reason: "an empty request is none",
			in:     map[string]string{newKey + "loadBalancerIPs": "", newKey + "allow-shared-ip": ""},
		},
		"MetalLB output": {
			reason: "what a controller writes is never a request, whatever it says",
			in:     map[string]string{newKey + "ip-allocated-from-pool": "x", ourKey + "observed": "y"},
		},
		"core source ranges": {
			reason:   "blanks around parts are admitted, host bits mean the network",
			in:       map[string]string{sourceRangesKey: " 10.0.0.1/8, 2001:db8::/32 "},
			accepted: map[Name]string{SourceRanges: "10.0.0.0/8,2001:db8::/32"},
			problems: []problem{{SourceRanges, Adjusted, "10.0.0.0/8,2001:db8::/32"}},
		},
		"core source ranges, empty": {
			reason: "an empty annotation restricts nobody",
			in:     map[string]string{sourceRangesKey: " "},
		},
		"spec source ranges": {
			reason:   "stored before API servers were strict",
			spec:     map[Name]string{SourceRanges: "192.168.1.7/24"},
			accepted: map[Name]string{SourceRanges: "192.168.1.0/24"},
			problems: []problem{{SourceRanges, Adjusted, "192.168.1.0/24"}},
		},
		"spec wins": {
			reason:   "spec, then the neutral name, then aliases",
			in:       map[string]string{ourKey + "source-ranges": "10.0.0.0/8", sourceRangesKey: "192.168.0.0/16"},
			spec:     map[Name]string{SourceRanges: "192.168.0.0/16"},
			accepted: map[Name]string{SourceRanges: "192.168.0.0/16"},
			problems: []problem{{SourceRanges, Conflict, ""}},
		},
		"spec address": {
			reason:   "an API server does not look at loadBalancerIP",
			spec:     map[Name]string{Address: "not-an-ip"},
			problems: []problem{{Address, Invalid, ""}},
		},
		"spec and annotation agree": {
			reason:   "the same address in other words is no conflict",
			in:       map[string]string{newKey + "loadBalancerIPs": "2001:db8:0::5"},
			spec:     map[Name]string{Address: "2001:db8::5"},
			accepted: map[Name]string{Address: "2001:db8::5"},
		},
		"neutral wins": {
			reason:   "the neutral name wins over the old one",
			in:       map[string]string{ourKey + "proxy-protocol": "v2", occmKey + "proxy-protocol": "v1"},
			accepted: map[Name]string{ProxyProtocol: "v2"},
			problems: []problem{{ProxyProtocol, Conflict, ""}},
		},
		"neutral wins although it is wrong": {
			reason:   "falling back to the alias would guess",
			in:       map[string]string{ourKey + "proxy-protocol": "v9", occmKey + "proxy-protocol": "v1"},
			problems: []problem{{ProxyProtocol, Invalid, "v1"}},
		},
		"old meaning and neutral differ": {
			reason:   "True under the old key is not set, and so differs from true",
			in:       map[string]string{ourKey + "internal": "true", internalKey: "True"},
			accepted: map[Name]string{Internal: "true"},
			problems: []problem{{Internal, Conflict, ""}},
		},
		"foreign keys": {
			reason: "annotations of others are none of our business",
			in:     map[string]string{"example.com/proxy-protocol": "x", "fairlead.dev": "x", "service.beta.kubernetes.io/aws-load-balancer-type": "nlb"},
		},
		"unknown keys": {
			reason: "typing errors under our prefixes are named, with the nearest key",
			in: map[string]string{
				ourKey + "proxy-protcool": "v1", occmKey + "keep-floating-ip": "true", ourKey + "loadBalancerIPs": "1.2.3.4",
				cloudPrefix + "load-balancer-provider": "ovn", newKey + "loadbalancerips": "1.2.3.4",
			},
			problems: []problem{
				{"", Unknown, ourKey + "address"},
				{"", Unknown, ourKey + "proxy-protocol"},
				{"", Unknown, occmKey + "keep-floatingip"},
				{"", Unknown, newKey + "loadBalancerIPs"},
				{"", Unknown, ""},
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Parse(Input{Annotations: c.in, Spec: c.spec})
			if d := cmp.Diff(c.accepted, r.Accepted, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s: accepted (-want +got):\n%s", c.reason, d)
			}
			var got []problem
			for _, p := range r.Problems {
				got = append(got, problem{p.Option, p.Kind, p.Suggestion})
			}
			if d := cmp.Diff(c.problems, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s: problems (-want +got):\n%s", c.reason, d)
			}
		})
	}
}

func TestWrittenIsOutput(t *testing.T) {
	key := occmKey + "load-balancer-id"
	in := Input{Annotations: map[string]string{key: "lb-1"}, Written: map[string]string{key: "lb-1"}}
	if r := Parse(in); len(r.Accepted)+len(r.Problems) > 0 {
		t.Errorf("what was written counts as a request: %v", r)
	}
	in.Annotations[key] = "lb-2"
	if id, ok := Parse(in).Values.Text(LoadBalancerID); !ok || id != "lb-2" {
		t.Errorf("another value is a request: got %q, %v", id, ok)
	}
	// The user repeats by the neutral name what was written under the old one.
	in.Annotations[key], in.Annotations[LoadBalancerID.Key()] = "lb-1", "lb-3"
	r := Parse(in)
	if id, _ := r.Values.Text(LoadBalancerID); id != "lb-3" || len(r.Problems) > 0 {
		t.Errorf("output conflicts with a request: %q, %v", id, r.Problems)
	}
}
