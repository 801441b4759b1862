package annotation

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mistake is why a text is no value. The zero mistake is none.
type mistake struct {
	// what completes the sentence `"<text>" …`.
	what string
	// near is the text that was probably meant, or empty.
	near string
}

// one reads one value of the option's type, strictly and without any per-port
// part, and returns its canonical text.
func (o Option) one(v string) (string, mistake) {
	if v == "" {
		return "", mistake{what: "is empty"}
	}
	switch o.Type {
	case Bool:
		return readBool(v)
	case Int, Milliseconds, Seconds:
		return o.readNumber(v)
	case Enum:
		return o.readWord(v)
	case ID:
		return o.readID(v)
	case List:
		return readList(v)
	case Hostname:
		return readHostname(v)
	case Selector:
		return readSelector(v)
	case Addresses:
		return readAddresses(v)
	case Prefixes:
		return readPrefixes(v)
	case Text:
	}
	return v, mistake{}
}

func readBool(v string) (string, mistake) {
	if b, err := strconv.ParseBool(v); err == nil {
		return strconv.FormatBool(b), mistake{}
	}
	m := mistake{what: "is neither true nor false"}
	switch w := strings.ToLower(strings.TrimSpace(v)); w {
	case "yes", "y", "on", "enabled":
		m.near = "true"
	case "no", "n", "off", "disabled":
		m.near = "false"
	default:
		m.near = Nearest(w, []string{"true", "false"})
	}
	return "", m
}

// unit is what a number counts; 0 when it is no time.
func (o Option) unit() time.Duration {
	switch o.Type {
	case Milliseconds:
		return time.Millisecond
	case Seconds:
		return time.Second
	default:
		return 0
	}
}

func (o Option) inRange(n int) bool {
	return n >= o.Min && n <= o.Max || o.Unlimited && n == -1
}

func (o Option) readNumber(v string) (string, mistake) {
	n, err := strconv.Atoi(v)
	switch {
	case err == nil && o.inRange(n):
		return strconv.Itoa(n), mistake{}
	case err == nil, errors.Is(err, strconv.ErrRange):
		return "", mistake{what: "is out of range"}
	}
	m := mistake{what: "is not an integer", near: o.nearNumber(strings.TrimSpace(v))}
	if o.unit() > 0 {
		m.what = "is not " + string(o.Type)
	}
	return "", m
}

// nearNumber returns the number that a text with blanks, or a duration such as
// "70s", stands for; empty when there is none in range.
func (o Option) nearNumber(v string) string {
	n, err := strconv.Atoi(v)
	if d, derr := time.ParseDuration(v); err != nil && derr == nil && o.unit() > 0 && d%o.unit() == 0 {
		if count := d / o.unit(); count >= 0 && count <= longest {
			n, err = int(count), nil
		}
	}
	if err != nil || !o.inRange(n) {
		return ""
	}
	return strconv.Itoa(n)
}

func (o Option) readWord(v string) (string, mistake) {
	if slices.Contains(o.Allowed, v) {
		return v, mistake{}
	}
	if w, ok := o.Synonyms[v]; ok {
		return w, mistake{}
	}
	m := mistake{what: "is none of " + strings.Join(o.Allowed, ", "), near: Nearest(strings.TrimSpace(v), o.Allowed)}
	if w, ok := o.Synonyms[strings.ToLower(strings.TrimSpace(v))]; ok {
		m.near = w
	}
	return "", m
}

func (o Option) readID(v string) (string, mistake) {
	if strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		m := mistake{what: "holds a blank"}
		if t := strings.TrimSpace(v); t != "" && t != v {
			if _, again := o.readID(t); again.what == "" {
				m.near = t
			}
		}
		return "", m
	}
	if o.PerPort && isPerPort(v) { // it could not be told from one later on
		return "", mistake{what: "holds a comma or a port"}
	}
	return v, mistake{}
}

func splitList(v string) []string {
	parts := strings.Split(v, ",")
	for i, p := range parts {
		parts[i] = strings.TrimSpace(p)
	}
	return parts
}

func readList(v string) (string, mistake) {
	parts := splitList(v)
	if !slices.Contains(parts, "") {
		return strings.Join(parts, ","), mistake{}
	}
	return "", mistake{what: "has an empty part", near: strings.Join(fullParts(parts), ",")}
}

func fullParts(parts []string) []string {
	return slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return p == "" })
}

// readHostname admits what a Service's status may hold: a DNS-1123 subdomain
// in lower case that is no address.
func readHostname(v string) (string, mistake) {
	if isHostname(v) {
		return v, mistake{}
	}
	m := mistake{what: "is no DNS name in lower case"}
	if t := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(v), ".")); isHostname(t) {
		m.near = t
	}
	return "", m
}

func isHostname(v string) bool {
	if _, err := netip.ParseAddr(v); err == nil || len(v) > 253 {
		return false
	}
	return !slices.ContainsFunc(strings.Split(v, "."), func(l string) bool { return !isLabel(l) })
}

// isLabel tells whether a text is a DNS-1123 label.
func isLabel(l string) bool {
	if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(l, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

func readSelector(v string) (string, mistake) {
	parts := splitList(v)
	for i, p := range parts {
		key, value, pair := strings.Cut(p, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if key == "" || !isLabelText(key) || !isLabelText(value) {
			return "", mistake{what: fmt.Sprintf("holds %q, which is neither key=value nor a key", p)}
		}
		if parts[i] = key; pair {
			parts[i] = key + "=" + value
		}
	}
	return strings.Join(parts, ","), mistake{}
}

// isLabelText tells whether a text holds only what label keys and values do.
func isLabelText(v string) bool {
	return !strings.ContainsFunc(v, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./", r)
	})
}
