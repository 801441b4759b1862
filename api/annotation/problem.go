package annotation

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind says what sort of problem there is.
type Kind string

// The kinds.
const (
	// Invalid: the value does not parse or is out of range.
	Invalid Kind = "Invalid"
	// Unknown: nobody knows this key under a prefix that we read.
	Unknown Kind = "Unknown"
	// Unmatched: a per-port value names a port that the Service does not have.
	// The other ports get theirs.
	Unmatched Kind = "Unmatched"
	// Conflict: two sources differ; the message says which one won.
	Conflict Kind = "Conflict"
	// OldMeaning: the value under an old key keeps the meaning that its own
	// controller gave it, which is hardly what was meant.
	OldMeaning Kind = "OldMeaning"
	// Adjusted: the value was read in a stricter form than it is written in.
	Adjusted Kind = "Adjusted"
	// NotApplicable: this provider has no use for the option. The Service
	// stays accepted.
	NotApplicable Kind = "NotApplicable"
	// NotYet: this provider will honour the option and does not yet.
	NotYet Kind = "NotYet"
)

// Problem is what is wrong with one source of one option.
type Problem struct {
	// Option is empty for an Unknown key.
	Option Name
	// Key is the annotation key or spec field as the user wrote it.
	Key   string
	Value string
	Kind  Kind
	// Message is what to tell the user: what is wrong, what is allowed, and
	// what is being done meanwhile. It is fit for a condition.
	Message string
	// Allowed says what values the option takes.
	Allowed string
	// Suggestion is what was probably meant: a value of the option in its
	// neutral form, or for an Unknown key the nearest known key; empty when
	// nothing is near.
	Suggestion string
	// Exposure tells that a new Service must not be served until this is
	// mended.
	Exposure bool
	// Held tells that the option keeps its last accepted value.
	Held bool
}

// standing is what becomes of an option whose value is wrong.
type standing struct {
	held    bool
	last    string
	blocked bool
}

func (s standing) String() string {
	switch {
	case s.held && s.last == "":
		return `Still serving with the last accepted value "".`
	case s.held:
		return "Still serving with the last accepted value " + shorten(s.last) + "."
	case s.blocked:
		return "Nothing is served until it is mended."
	}
	return "Still serving with the default."
}

func newProblem(o Option, s source, k Kind) Problem {
	return Problem{Option: o.Name, Key: s.key, Value: s.value, Kind: k, Allowed: o.Takes()}
}

func invalidValue(o Option, s source, m mistake, st standing) Problem {
	p := newProblem(o, s, Invalid)
	p.Suggestion, p.Held, p.Exposure = m.near, st.held, st.blocked
	remedy := "allowed: " + p.Allowed + "."
	if m.near != "" {
		remedy = "did you mean " + quote(m.near) + "?"
	}
	p.Message = fmt.Sprintf("%s: %s %s; %s %s", s.label(), quote(s.value), m.what, remedy, st)
	return p
}

// readOtherwise is about a value that was understood, but not as it looks.
func readOtherwise(o Option, s source, r reading) Problem {
	p := newProblem(o, s, r.kind)
	p.Suggestion = r.mistake.near
	if r.kind == Adjusted {
		p.Message = fmt.Sprintf("%s: %s %s; it is read as %s.", s.label(), quote(s.value), r.mistake.what, quote(r.setting.text))
		return p
	}
	remedy := "takes: " + p.Allowed
	if p.Suggestion != "" {
		remedy = "can say " + quote(p.Suggestion)
	}
	p.Message = fmt.Sprintf("%s: %s %s; %s %s.", s.label(), quote(s.value), r.mistake.what, o.Name.Key(), remedy)
	return p
}

func conflict(o Option, won, lost source) Problem {
	p := newProblem(o, lost, Conflict)
	p.Message = fmt.Sprintf("%s: %s of %s wins over %s of %s; keep one of the two.",
		o.Name, quote(won.value), won.key, quote(lost.value), lost.key)
	return p
}

func notHonoured(o Option, s source, in Input) Problem {
	support := o.On(in.Provider)
	if support.State == Unused {
		p := newProblem(o, s, NotApplicable)
		p.Message = fmt.Sprintf("%s: the provider %s has no use for it, so %s has no effect.", s.label(), in.Provider, quote(s.value))
		if support.Note != "" {
			p.Message += " " + support.Note
		}
		return p
	}
	p := newProblem(o, s, NotYet)
	p.Exposure = o.Exposure && in.New
	p.Message = fmt.Sprintf("%s: the provider %s does not honour it yet, so %s has no effect. %s",
		s.label(), in.Provider, quote(s.value), standing{blocked: p.Exposure})
	return p
}

func unmatched(o Option, s source, v setting, ports []Port) []Problem {
	if len(ports) == 0 {
		return nil
	}
	var out []Problem
	for _, c := range v.choices {
		near, found := nearestPort(c.port, ports)
		if found {
			continue
		}
		p := newProblem(o, s, Unmatched)
		p.Message = fmt.Sprintf("%s: %s names port %s, which the Service does not have", s.label(), quote(s.value), c.port)
		if near != "" {
			p.Suggestion = swapPort(o, v, c.port, near)
			p.Message += fmt.Sprintf("; did you mean %s?", near)
		} else {
			p.Message += "."
		}
		p.Message += " The other ports are served as asked."
		out = append(out, p)
	}
	return out
}

// nearestPort tells whether a selector matches a port, and if not, how the
// user might name the port that was probably meant.
func nearestPort(s selector, ports []Port) (near string, found bool) {
	var names []string
	for _, p := range ports {
		if s.matches(p) {
			return "", true
		}
		if s.name == "" && s.number == p.Number {
			near = p.Protocol + "/" + strconv.Itoa(int(p.Number))
		}
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	if s.name != "" {
		near = Nearest(s.name, names)
	}
	return near, false
}

// swapPort returns a setting's text with another port, or "" when that is no value.
func swapPort(o Option, v setting, from selector, to string) string {
	var parts []string
	if v.hasPlain {
		parts = append(parts, v.plain)
	}
	for _, c := range v.choices {
		name := c.port.String()
		if c.port == from {
			name = to
		}
		parts = append(parts, name+"="+c.value)
	}
	swapped, m := o.strict(strings.Join(parts, ","))
	if m.what != "" {
		return ""
	}
	return swapped.text
}

func unknownKey(key, value string, options []Option) Problem {
	p := Problem{Key: key, Value: value, Kind: Unknown, Suggestion: nearestKey(key, options)}
	p.Message = key + ": nobody knows this annotation, so it has no effect"
	if p.Suggestion == "" {
		p.Message += `; "fairlead explain" lists those that are known.`
		return p
	}
	p.Message += "; did you mean " + p.Suggestion + "?"
	return p
}

// nearestKey finds the known key that a mistyped one probably stands for: one
// that is spelled much alike, or else the same option under another prefix.
func nearestKey(key string, options []Option) string {
	var keys, names []string
	owner := map[string]Option{}
	for _, o := range options {
		for _, k := range o.Keys() {
			_, name, _ := strings.Cut(k, "/")
			keys, names = append(keys, k), append(names, name)
			owner[name] = o
		}
	}
	if near := Nearest(key, keys); near != "" {
		return near
	}
	_, name, _ := strings.Cut(key, "/")
	if near := Nearest(name, names); near != "" {
		return owner[near].Name.Key()
	}
	return ""
}

// Takes says in words which values the option takes.
func (o Option) Takes() string {
	switch o.Type {
	case Enum:
		return strings.Join(o.Allowed, ", ")
	case Int, Milliseconds, Seconds:
		text := strconv.Itoa(o.Min) + " to " + strconv.Itoa(o.Max)
		if o.Unlimited {
			text = "-1 (no limit) or " + text
		}
		if o.Type != Int {
			text += " " + string(o.Type)
		}
		return text
	default:
		return map[Type]string{
			Bool:      "true or false",
			Text:      "any text",
			ID:        "an id or name without blanks",
			List:      "a comma-separated list",
			Hostname:  "a DNS name in lower case",
			Selector:  "a comma-separated list of key=value and key",
			Addresses: "IP addresses separated by a comma, at most one of each family",
			Prefixes:  "CIDRs separated by commas, such as 192.0.2.0/24",
		}[o.Type]
	}
}

// quote shows a user's text in a sentence, shortened when it is long.
func quote(v string) string { return strconv.Quote(shorten(v)) }

func shorten(v string) string {
	const most = 80
	if r := []rune(v); len(r) > most {
		return string(r[:most]) + "…"
	}
	return v
}
