package annotation

import (
	"fmt"
	"strconv"
	"strings"
)

// source is one place that says what an option is to be.
type source struct {
	key     string
	value   string
	dialect Dialect
}

// label is what messages call the source: users think of a neutral key by its
// short name.
func (s source) label() string {
	if s.dialect == Neutral {
		return strings.TrimPrefix(s.key, Prefix)
	}
	return s.key
}

// sources returns who says something about an option: the spec field, the
// neutral key, then the aliases in their order. What Fairlead or the
// controller before it wrote is left out.
func (o Option) sources(in Input) []source {
	var out []source
	if v, ok := in.Spec[o.Name]; ok && strings.TrimSpace(v) != "" {
		key := o.SpecField
		if key == "" {
			key = "spec"
		}
		out = append(out, source{key, v, Spec})
	}
	add := func(key string, d Dialect) {
		v, ok := in.Annotations[key]
		if w, written := in.Written[key]; ok && (!written || v != w) {
			out = append(out, source{key, v, d})
		}
	}
	add(o.Name.Key(), Neutral)
	for _, a := range o.Aliases {
		add(a.Key, a.Dialect)
	}
	return out
}

// reading is what a source means.
type reading struct {
	setting setting
	// set is false for a source that says nothing, or nothing that counts.
	set bool
	// kind is empty, Invalid, OldMeaning or Adjusted; mistake goes with it.
	kind    Kind
	mistake mistake
}

func (r reading) same(o reading) bool {
	return r.kind != Invalid && o.kind != Invalid && r.set == o.set && r.setting.text == o.setting.text
}

func valid(s setting) reading     { return reading{setting: s, set: true} }
func invalid(m mistake) reading   { return reading{kind: Invalid, mistake: m} }
func (r reading) isInvalid() bool { return r.kind == Invalid }

// read reads a source by the rules of its dialect.
func (o Option) read(s source) reading {
	switch s.dialect {
	case OCCM:
		return o.readOCCM(s.value)
	case Spec, Core:
		return o.readCore(strings.TrimSpace(s.value))
	case MetalLB, MetalLBOld:
		if s.value == "" {
			return reading{}
		}
		return o.readPlain(s.value)
	case Neutral:
	}
	return o.readNeutral(s.value)
}

func (o Option) readNeutral(v string) reading {
	if v == "" && o.Empty == EmptyUnset {
		return reading{}
	}
	s, m := o.strict(v)
	if m.what != "" {
		return invalid(m)
	}
	return valid(s)
}

func (o Option) readPlain(v string) reading {
	text, m := o.one(v)
	if m.what != "" {
		return invalid(m)
	}
	return valid(plainSetting(text))
}

// readCore takes what API servers before 1.36 admitted and still hold: CIDRs
// with bits behind their length. They mean the network, as they do to
// kube-proxy.
func (o Option) readCore(v string) reading {
	if v == "" {
		return reading{}
	}
	r := o.readPlain(v)
	if !r.isInvalid() || o.Type != Prefixes {
		return r
	}
	masked := maskPrefixes(v)
	if masked.wrong {
		return r
	}
	return reading{setting: plainSetting(masked.text), set: true, kind: Adjusted, mistake: mistake{what: r.mistake.what, near: masked.text}}
}

// readOCCM gives a value the meaning that the OpenStack controller gave it.
// What that controller passed on unread and Octavia refuses is invalid.
func (o Option) readOCCM(v string) reading {
	switch o.Type {
	case Bool:
		if v == "true" || v == "false" {
			return valid(plainSetting(v))
		}
		return o.oldMeaning(v, reading{})
	case Int, Milliseconds, Seconds:
		return o.readOldNumber(v)
	case Enum:
		r := o.readPlain(v)
		if r.isInvalid() && o.OldOther != "" {
			return o.oldMeaning(v, valid(plainSetting(o.OldOther)))
		}
		return r
	case List:
		v = strings.Join(fullParts(splitList(v)), ",")
	default:
	}
	return o.readOldText(v)
}

func (o Option) readOldText(v string) reading {
	switch {
	case v == "" && o.Empty == EmptySet:
		return valid(plainSetting(""))
	case v == "":
		return reading{}
	}
	return o.readPlain(v)
}

func (o Option) readOldNumber(v string) reading {
	n, err := strconv.Atoi(v)
	switch {
	case err != nil:
		return o.oldMeaning(v, reading{})
	case n == 0 && o.OldZero != "":
		r := o.oldMeaning(v, valid(plainSetting(o.OldZero)))
		r.mistake.near = o.OldZero
		return r
	}
	return o.readPlain(v)
}

// oldMeaning marks a reading that the neutral key would not give.
func (o Option) oldMeaning(v string, r reading) reading {
	neutral := o.readNeutral(v)
	if neutral.same(r) {
		return r
	}
	r.kind = OldMeaning
	r.mistake = mistake{what: "counts as not set under this key, as it always has", near: neutral.mistake.near}
	if r.set {
		r.mistake.what = fmt.Sprintf("counts as %q under this key, as it always has", r.setting.text)
	}
	if neutral.set {
		r.mistake.near = neutral.setting.text
	}
	return r
}
