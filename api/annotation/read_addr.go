package annotation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// readAddresses keeps the order, which is that of the status.
func readAddresses(v string) (string, mistake) {
	var out []netip.Addr
	for _, p := range splitList(v) {
		a, err := netip.ParseAddr(p)
		if err != nil {
			return "", mistake{what: fmt.Sprintf("holds %q, which is no IP address", p), near: hostOf(v)}
		}
		a = a.Unmap()
		if !isUsable(a) {
			return "", mistake{what: fmt.Sprintf("holds %q, which no Service can have", p)}
		}
		if slices.ContainsFunc(out, func(b netip.Addr) bool { return a.Is4() == b.Is4() }) {
			return "", mistake{what: "holds two addresses of one family"}
		}
		out = append(out, a)
	}
	return joinText(out), mistake{}
}

// isUsable tells whether a client anywhere could connect to an address.
func isUsable(a netip.Addr) bool {
	broadcast := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() && a != broadcast
}

// hostOf returns the address that a CIDR of one address stands for, or "".
func hostOf(v string) string {
	p, err := netip.ParsePrefix(strings.TrimSpace(v))
	if err != nil || !p.IsSingleIP() {
		return ""
	}
	if text, m := readAddresses(p.Addr().String()); m.what == "" {
		return text
	}
	return ""
}

// readPrefixes returns the ranges sorted, each once.
func readPrefixes(v string) (string, mistake) {
	r := maskPrefixes(v)
	switch {
	case r.wrong:
		m := mistake{what: fmt.Sprintf("holds %q, which is no CIDR", r.part)}
		if near := maskPrefixes(addLengths(v)); !near.wrong {
			m.near = near.text
		}
		return "", m
	case r.hostBits:
		return "", mistake{what: fmt.Sprintf("holds %q, which has bits behind its length", r.part), near: r.text}
	}
	return r.text, mistake{}
}

// ranges is a list of ranges as it was read.
type ranges struct {
	// text is the list in canonical form, without bits behind the lengths.
	text string
	// part is the first one that is no range, when wrong; else the first one
	// that has bits behind its length, when hostBits.
	part     string
	wrong    bool
	hostBits bool
}

func maskPrefixes(v string) ranges {
	var r ranges
	var out []netip.Prefix
	for _, part := range splitList(v) {
		p, ok := readPrefix(part)
		if !ok {
			return ranges{part: part, wrong: true}
		}
		if p != p.Masked() && !r.hostBits {
			r.part, r.hostBits = part, true
		}
		out = append(out, p.Masked())
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	r.text = joinText(slices.Compact(out))
	return r
}

// readPrefix reads an IPv4-mapped range as the IPv4 range that it is.
func readPrefix(v string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(v)
	switch {
	case err != nil:
		return netip.Prefix{}, false
	case !p.Addr().Is4In6():
		return p, true
	case p.Bits() < 96:
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), true
}

// addLengths makes a CIDR of each part of a list that is an address.
func addLengths(v string) string {
	parts := splitList(v)
	for i, p := range parts {
		if a, err := netip.ParseAddr(p); err == nil && a.Zone() == "" {
			a = a.Unmap()
			parts[i] = netip.PrefixFrom(a, a.BitLen()).String()
		}
	}
	return strings.Join(parts, ",")
}

func joinText[T fmt.Stringer](items []T) string {
	text := make([]string, len(items))
	for i, x := range items {
		text[i] = x.String()
	}
	return strings.Join(text, ",")
}
