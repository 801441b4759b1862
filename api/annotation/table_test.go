package annotation

import (
	"slices"
	"strings"
	"testing"
)

func TestTableIsWhole(t *testing.T) {
	seen := map[string]Name{}
	last := Name("")
	for _, o := range Table() {
		if o.Name <= last {
			t.Errorf("%s comes after %s", o.Name, last)
		}
		last = o.Name
		for _, k := range o.Keys() {
			if other, twice := seen[k]; twice {
				t.Errorf("%s is a key of %s and of %s", k, other, o.Name)
			}
			seen[k] = o.Name
		}
		for what, text := range map[string]string{
			"type": string(o.Type), "direction": string(o.Direction), "default": o.Default,
			"since": o.Since, "doc": o.Doc, "example": o.Example, "allowed values": o.Takes(),
		} {
			if text == "" {
				t.Errorf("%s has no %s", o.Name, what)
			}
		}
		if !strings.HasSuffix(o.Doc, ".") || !strings.HasSuffix(o.Example, exampleValue(o)) {
			t.Errorf("%s: the doc is no sentence or the example no annotation", o.Name)
		}
		checkSupport(t, o)
		checkLimits(t, o)
	}
}

func checkSupport(t *testing.T, o Option) {
	t.Helper()
	for _, p := range Providers() {
		s, ok := o.Support[p]
		if !ok {
			t.Errorf("%s says nothing about %s", o.Name, p)
		}
		if (s.State == Supported) != (s.Test != "") {
			t.Errorf("%s on %s is %s with test %q", o.Name, p, s.State, s.Test)
		}
	}
	if len(o.Support) != len(Providers()) {
		t.Errorf("%s names an unknown provider", o.Name)
	}
}

func checkLimits(t *testing.T, o Option) {
	t.Helper()
	number := slices.Contains([]Type{Int, Milliseconds, Seconds}, o.Type)
	if number != (o.Max > o.Min) {
		t.Errorf("%s of type %s has the range %d to %d", o.Name, o.Type, o.Min, o.Max)
	}
	if (o.Type == Enum) != (len(o.Allowed) > 1) {
		t.Errorf("%s of type %s allows %v", o.Name, o.Type, o.Allowed)
	}
	if o.TCPOnly && !o.PerPort {
		t.Errorf("%s is for TCP ports only, and not per port", o.Name)
	}
	if slices.Contains([]Type{List, Addresses, Prefixes, Selector, Text}, o.Type) && o.PerPort {
		t.Errorf("%s of type %s cannot be per port: its commas would part ports", o.Name, o.Type)
	}
}

// exampleValue returns the value of the option's example.
func exampleValue(o Option) string {
	_, v, _ := strings.Cut(o.Example, ": ")
	return v
}

func TestExamplesAreAccepted(t *testing.T) {
	for _, o := range Table() {
		key, _, _ := strings.Cut(o.Example, ": ")
		if !slices.Contains(o.Keys(), key) {
			t.Errorf("the example of %s has the key %s", o.Name, key)
		}
		if o.Direction == Out {
			continue
		}
		r := Parse(Input{Annotations: map[string]string{key: strings.Trim(exampleValue(o), `"`)}, New: true})
		if len(r.Problems) > 0 || len(r.Accepted) != 1 {
			t.Errorf("the example of %s: accepted %v with problems %v", o.Name, r.Accepted, r.Problems)
		}
	}
}

// The well-known keys, as OCCM (1.36, and the tags of 1.37) and MetalLB document them.
func TestWellKnownKeysAreKnown(t *testing.T) {
	occm := strings.Fields(`floating-network-id floating-subnet-id floating-subnet floating-subnet-tags class subnet-id
		network-id member-subnet-id port-id connection-limit keep-floatingip proxy-protocol x-forwarded-for lb-method
		timeout-client-data timeout-member-connect timeout-member-data timeout-tcp-inspect enable-health-monitor
		health-monitor-delay health-monitor-timeout health-monitor-max-retries health-monitor-max-retries-down flavor-id
		availability-zone default-tls-container-ref load-balancer-id load-balancer-address hostname node-selector
		load-balancer-tags listener-tags pool-tags`)
	var keys []string
	for _, k := range occm {
		keys = append(keys, "loadbalancer.openstack.org/"+k)
	}
	for _, k := range []string{"address-pool", "loadBalancerIPs", "allow-shared-ip", "ip-allocated-from-pool"} {
		keys = append(keys, "metallb.io/"+k, "metallb.universe.tf/"+k)
	}
	keys = append(keys, "service.beta.kubernetes.io/openstack-internal-load-balancer", "service.beta.kubernetes.io/load-balancer-source-ranges")
	for _, k := range keys {
		if o, ok := Lookup(k); !ok || !slices.Contains(o.Keys(), k) {
			t.Errorf("%s is not known", k)
		}
	}
}

func TestLookup(t *testing.T) {
	for asked, want := range map[string]Name{
		"keep-address":                               KeepAddress,
		"fairlead.dev/keep-address":                  KeepAddress,
		"loadbalancer.openstack.org/keep-floatingip": KeepAddress,
		"keep-floatingip":                            "",
		"":                                           "",
	} {
		o, ok := Lookup(asked)
		if o.Name != want || ok != (want != "") {
			t.Errorf("Lookup(%q) = %q, %v, want %q", asked, o.Name, ok, want)
		}
	}
}

func TestOnUnknownProvider(t *testing.T) {
	o, _ := Lookup("paused")
	if s := o.On("elsewhere"); s.State != Unused {
		t.Errorf("On(elsewhere) = %v, want not applicable", s)
	}
}
