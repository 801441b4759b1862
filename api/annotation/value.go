package annotation

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Port is a port of a Service, as far as per-port values name it.
type Port struct {
	// Protocol is "TCP", "UDP" or "SCTP".
	Protocol string
	Number   uint16
	// Name is the Service's name for the port, or empty.
	Name string
}

// Values are the options in force. The zero value holds none. They are never
// changed, so many may read them at once.
//
// The accessors report set=false for an option that is not in force, and for
// one of another type. They return what counts for the whole Service; what a
// PerPort option says for one port is asked through For.
type Values struct {
	settings map[Name]value
}

type value struct {
	option  Option
	setting setting
}

// Bool returns a Bool option.
func (v Values) Bool(n Name) (value, set bool) {
	text, ok := v.plain(n, Bool)
	return text == "true", ok
}

// Int returns an Int option.
func (v Values) Int(n Name) (value int, set bool) {
	text, ok := v.plain(n, Int)
	if !ok {
		return 0, false
	}
	value, err := strconv.Atoi(text)
	return value, err == nil
}

// Duration returns a Milliseconds or Seconds option.
func (v Values) Duration(n Name) (value time.Duration, set bool) {
	text, ok := v.plain(n, Milliseconds, Seconds)
	if !ok {
		return 0, false
	}
	count, err := strconv.Atoi(text)
	return time.Duration(count) * v.settings[n].option.unit(), err == nil
}

// Text returns the text of an option of any type, in its neutral form. An
// empty text that is set is a value: it stands in the way of a configured default.
func (v Values) Text(n Name) (value string, set bool) { return v.plain(n) }

// List returns the parts of a List option.
func (v Values) List(n Name) (value []string, set bool) {
	text, ok := v.plain(n, List)
	if !ok || text == "" {
		return nil, ok
	}
	return strings.Split(text, ","), true
}

// Addrs returns an Addresses option, in the order of the request.
func (v Values) Addrs(n Name) (value []netip.Addr, set bool) {
	text, ok := v.plain(n, Addresses)
	return parseAll(text, netip.ParseAddr), ok
}

// Prefixes returns a Prefixes option, sorted and without host bits.
func (v Values) Prefixes(n Name) (value []netip.Prefix, set bool) {
	text, ok := v.plain(n, Prefixes)
	return parseAll(text, netip.ParsePrefix), ok
}

// parseAll reads a canonical list.
func parseAll[T any](text string, parse func(string) (T, error)) []T {
	var out []T
	for part := range strings.SplitSeq(text, ",") {
		if x, err := parse(part); err == nil {
			out = append(out, x)
		}
	}
	return out
}

// For returns the values as they are for one port: every PerPort option is
// resolved to what this port gets, so that the other accessors can be used. A
// value that is not for the port's protocol is not set.
func (v Values) For(p Port) Values {
	out := maps.Clone(v.settings)
	for n, x := range v.settings {
		if !x.option.PerPort {
			continue
		}
		text, ok := x.setting.at(x.option, p)
		if !ok {
			delete(out, n)
			continue
		}
		out[n] = value{x.option, plainSetting(text)}
	}
	return Values{out}
}

// Names returns the options in force, sorted.
func (v Values) Names() []Name { return slices.Sorted(maps.Keys(v.settings)) }

// Equal tells whether the same options say the same, whichever keys they came from.
func (v Values) Equal(o Values) bool {
	return maps.EqualFunc(v.settings, o.settings, func(a, b value) bool { return a.setting.text == b.setting.text })
}

// plain returns what counts for the whole Service, of an option of one of the
// types; without types, of any.
func (v Values) plain(n Name, types ...Type) (string, bool) {
	x, ok := v.settings[n]
	if !ok || !x.setting.hasPlain || len(types) > 0 && !slices.Contains(types, x.option.Type) {
		return "", false
	}
	return x.setting.plain, true
}
