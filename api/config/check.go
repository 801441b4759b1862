package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

func checkNamespace(v string) string {
	if len(validation.IsDNS1123Label(v)) > 0 {
		return fmt.Sprintf("%q cannot be the name of a namespace: use a-z, 0-9 and -, at most 63 letters", v)
	}
	return ""
}

func checkName(v string) string {
	if len(validation.IsDNS1123Subdomain(v)) > 0 {
		return fmt.Sprintf("%q cannot be the name of an object: use a-z, 0-9, - and .", v)
	}
	return ""
}

func checkSelector(v string) string {
	if _, err := labels.Parse(v); err != nil {
		return fmt.Sprintf("%q is no label selector: %v", v, err)
	}
	return ""
}

// checkListen admits no port 0: nobody would know where to connect to.
func checkListen(v string) string {
	if v == "" {
		return ""
	}
	i := strings.LastIndexByte(v, ':')
	if i < 0 {
		return fmt.Sprintf("%q has no port: use host:port or :port", v)
	}
	if n, err := strconv.ParseUint(v[i+1:], 10, 16); err != nil || n == 0 {
		return fmt.Sprintf("%q has no port from 1 to 65535", v)
	}
	host := v[:i]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if a, err := netip.ParseAddr(inner); !ok || err != nil || !a.Is6() {
			return fmt.Sprintf("%q has no IPv6 address between the brackets", v)
		}
		return ""
	}
	if host != "" && len(validation.IsDNS1123Subdomain(host)) > 0 {
		return fmt.Sprintf("%q has no host before the port: use a name, an IPv4 address, or an IPv6 address in brackets", v)
	}
	return ""
}

// checkPool admits a CIDR without host bits, or a range "first-last".
func checkPool(v string) string {
	first, last, isRange := strings.Cut(v, "-")
	if !isRange {
		return checkCIDR(v)
	}
	a, errA := netip.ParseAddr(strings.TrimSpace(first))
	b, errB := netip.ParseAddr(strings.TrimSpace(last))
	switch {
	case errA != nil || errB != nil || a.Zone() != "" || b.Zone() != "":
		return fmt.Sprintf("%q is no range of addresses: use first-last, such as 127.77.0.1-127.77.0.50", v)
	case a.Is4() != b.Is4():
		return fmt.Sprintf("%q mixes IPv4 and IPv6", v)
	case b.Less(a):
		return fmt.Sprintf("%q ends before it begins; did you mean \"%s-%s\"?", v, b, a)
	}
	return checkUsable(v, a, b)
}

func checkCIDR(v string) string {
	if a, err := netip.ParseAddr(v); err == nil {
		return fmt.Sprintf("%q is one address; did you mean \"%s/%d\"?", v, a.WithZone(""), a.BitLen())
	}
	p, err := netip.ParsePrefix(v)
	if err != nil {
		return fmt.Sprintf("%q is neither a CIDR such as 127.77.0.0/16 nor a range such as 127.77.0.1-127.77.0.50", v)
	}
	if p != p.Masked() {
		return fmt.Sprintf("%q has bits behind its length; did you mean \"%s\"?", v, p.Masked())
	}
	return checkUsable(v, p.Addr(), p.Addr())
}

func checkUsable(v string, addrs ...netip.Addr) string {
	if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.IsUnspecified() || a.IsMulticast() || a.Is4In6() }) {
		return fmt.Sprintf("%q holds addresses that nothing can listen on", v)
	}
	return ""
}

func within(least, most int) func(string) string {
	return func(v string) string {
		if n, err := strconv.Atoi(v); err != nil || n < least || n > most {
			return fmt.Sprintf("%s is out of range: use %d to %d", v, least, most)
		}
		return ""
	}
}

func between(least, most string) func(string) string {
	return func(v string) string {
		d, err := time.ParseDuration(v)
		lo, errLo := time.ParseDuration(least)
		hi, errHi := time.ParseDuration(most)
		if err != nil || errLo != nil || errHi != nil || d < lo || d > hi {
			return fmt.Sprintf("%s is out of range: use %s to %s", v, least, most)
		}
		return ""
	}
}

// together finds what is wrong between fields that are each right.
func together(c Config) []Problem {
	var out []Problem
	if len(c.Providers) == 0 {
		out = append(out, Problem{Path: "providers", Message: "names no provider, so nothing would be served: use local, openstack or bare-metal"})
	}
	if c.DefaultProvider != "" && !slices.Contains(c.Providers, c.DefaultProvider) {
		out = append(out, Problem{Path: "defaultProvider", Message: fmt.Sprintf("%q is not among providers", c.DefaultProvider)})
	}
	if slices.Contains(c.Providers, "local") && len(c.Local.Pools) == 0 {
		out = append(out, Problem{Path: "local.pools", Message: "is empty, so the local provider could give no address: use a CIDR such as 127.77.0.0/16"})
	}
	if c.Metrics.Address != "" && c.Metrics.Address == c.Health.Address {
		out = append(out, Problem{Path: "health.address", Message: fmt.Sprintf("%q is that of metrics.address too", c.Health.Address)})
	}
	l := c.LeaderElection
	if l.LeaseDuration <= l.RenewDeadline {
		out = append(out, Problem{Path: "leaderElection.leaseDuration", Message: fmt.Sprintf("%s is not longer than renewDeadline %s", l.LeaseDuration, l.RenewDeadline)})
	}
	// client-go's leader election refuses less (JitterFactor 1.2).
	if l.RenewDeadline <= l.RetryPeriod*6/5 {
		out = append(out, Problem{Path: "leaderElection.renewDeadline", Message: fmt.Sprintf("%s is not longer than 1.2 times retryPeriod %s", l.RenewDeadline, l.RetryPeriod)})
	}
	return out
}
