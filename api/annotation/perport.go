package annotation

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// setting is the value of an option, for the whole Service and for single ports.
type setting struct {
	// text is all of it, in canonical form.
	text string
	// plain is the value for the whole Service, when hasPlain.
	plain    string
	hasPlain bool
	choices  []choice
}

// choice is the value of one port.
type choice struct {
	port  selector
	value string
}

// selector names a port: by its name, or else by protocol and number.
type selector struct {
	name     string
	protocol string
	number   uint16
}

func (s selector) String() string {
	if s.name != "" {
		return s.name
	}
	return s.protocol + "/" + strconv.Itoa(int(s.number))
}

func (s selector) compare(o selector) int {
	return cmp.Or(strings.Compare(s.name, o.name), cmp.Compare(s.number, o.number), strings.Compare(s.protocol, o.protocol))
}

func (s selector) matches(p Port) bool {
	if s.name != "" {
		return s.name == p.Name
	}
	return s.protocol == p.Protocol && s.number == p.Number
}

// cutSelector cuts "443=v2", "UDP/53=v2" and "https=v2" in two. A number alone
// is a TCP port.
func cutSelector(part string) (selector, string, bool) {
	left, right, ok := strings.Cut(part, "=")
	if !ok {
		return selector{}, "", false
	}
	s, ok := readPortSelector(strings.TrimSpace(left))
	return s, strings.TrimSpace(right), ok
}

func readPortSelector(v string) (selector, bool) {
	protocol, number, ok := strings.Cut(v, "/")
	if !ok {
		protocol, number = "TCP", v
	}
	protocol = strings.ToUpper(protocol)
	if n, err := strconv.ParseUint(number, 10, 16); err == nil && n > 0 {
		return selector{protocol: protocol, number: uint16(n)}, slices.Contains([]string{"TCP", "UDP", "SCTP"}, protocol)
	}
	// A Service's port name is a label with a letter in it.
	isName := !ok && isLabel(v) && strings.ContainsFunc(v, func(r rune) bool { return r >= 'a' && r <= 'z' })
	return selector{name: v}, isName
}

// isPerPort tells whether a value of a PerPort option names ports.
func isPerPort(v string) bool {
	_, _, ok := cutSelector(v)
	return ok || strings.Contains(v, ",")
}

// strict reads a value as it is read under the neutral key.
func (o Option) strict(v string) (setting, mistake) {
	switch {
	case v == "" && o.Empty == EmptySet:
		return plainSetting(""), mistake{}
	case o.PerPort && isPerPort(v):
		return o.perPort(v)
	}
	text, m := o.one(v)
	return plainSetting(text), m
}

func plainSetting(text string) setting {
	return setting{text: text, plain: text, hasPlain: true}
}

// partLimit bounds the work on one annotation.
const partLimit = 256

// perPort reads "value,port=value,…" and "port=value,…".
func (o Option) perPort(v string) (setting, mistake) {
	var s setting
	parts := splitList(v)
	if len(parts) > partLimit {
		return setting{}, mistake{what: "has more than " + strconv.Itoa(partLimit) + " parts"}
	}
	for i, part := range parts {
		port, value, isChoice := cutSelector(part)
		if !isChoice && i > 0 {
			return setting{}, mistake{what: fmt.Sprintf("holds %q after a comma, where a port and = belong", part)}
		}
		if !isChoice {
			value = part
		}
		text, m := o.part(value)
		if m.what != "" {
			return setting{}, o.inPart(parts, i, value, m)
		}
		if !isChoice {
			s.plain, s.hasPlain = text, true
			continue
		}
		if m := o.addChoice(&s, choice{port, text}, part); m.what != "" {
			return setting{}, m
		}
	}
	slices.SortFunc(s.choices, func(a, b choice) int { return a.port.compare(b.port) })
	s.text = s.join()
	return s, mistake{}
}

func (o Option) addChoice(s *setting, c choice, part string) mistake {
	if m := o.onProtocol(c.port.protocol, c.value); m.what != "" {
		return mistake{what: fmt.Sprintf("holds %q, and %s", part, m.what)}
	}
	if slices.ContainsFunc(s.choices, func(x choice) bool { return x.port == c.port }) {
		return mistake{what: fmt.Sprintf("names port %s twice", c.port)}
	}
	s.choices = append(s.choices, c)
	return mistake{}
}

// part reads the value of one part.
func (o Option) part(v string) (string, mistake) {
	if v == "" && o.Empty == EmptySet {
		return "", mistake{}
	}
	return o.one(v)
}

// inPart makes a mistake of one part one of the whole text.
func (o Option) inPart(parts []string, i int, value string, m mistake) mistake {
	out := mistake{what: fmt.Sprintf("holds %q, and %q %s", parts[i], value, m.what)}
	if m.near == "" {
		return out
	}
	mended := slices.Clone(parts)
	mended[i] = strings.TrimSuffix(parts[i], value) + m.near
	if s, still := o.strict(strings.Join(mended, ",")); still.what == "" {
		out.near = s.text
	}
	return out
}

// onProtocol says whether a port of a protocol can be given a value for itself.
func (o Option) onProtocol(protocol, value string) mistake {
	if !o.TCPOnly || protocol == "TCP" || protocol == "" {
		return mistake{}
	}
	if protocol == "UDP" && slices.Contains(o.OnUDP, value) {
		return mistake{}
	}
	return mistake{what: fmt.Sprintf("%q is not for %s ports", value, protocol)}
}

func (s setting) join() string {
	var parts []string
	if s.hasPlain {
		parts = append(parts, s.plain)
	}
	for _, c := range s.choices {
		parts = append(parts, c.port.String()+"="+c.value)
	}
	return strings.Join(parts, ",")
}

// fits says whether named ports can be given what they are given.
func (o Option) fits(s setting, ports []Port) mistake {
	for _, c := range s.choices {
		for _, p := range ports {
			if !c.port.matches(p) {
				continue
			}
			if m := o.onProtocol(p.Protocol, c.value); m.what != "" {
				return mistake{what: fmt.Sprintf("holds \"%s=%s\", and %s", c.port, c.value, m.what)}
			}
		}
	}
	return mistake{}
}

// at returns the value of one port. A protocol and number counts for more than
// a name, and either for more than the value for the whole Service.
func (s setting) at(o Option, p Port) (string, bool) {
	for _, c := range s.choices { // those without a name come first
		if c.port.matches(p) {
			return c.value, o.onProtocol(p.Protocol, c.value).what == ""
		}
	}
	return s.plain, s.hasPlain && (!o.TCPOnly || p.Protocol == "TCP")
}
