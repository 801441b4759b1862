package annotation

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Input is what one Service asks for, and what is known of it from before.
type Input struct {
	// Annotations are the Service's.
	Annotations map[string]string
	// Spec is what the Service's spec fields say, by option (Option.SpecField):
	// lists are joined by commas, a field that is not set is absent. It wins
	// over annotations.
	Spec map[Name]string
	// Accepted are the Result.Accepted of the last time.
	Accepted map[Name]string
	// Written maps annotation keys to the values that Fairlead, or the
	// controller that it took the Service over from, wrote there. An
	// annotation that still holds that value is output, never a request.
	Written map[string]string
	// Ports are the Service's, to check per-port values against. Without any,
	// those checks are left out.
	Ports []Port
	// Provider is who serves the Service; empty: nobody is asked whether it
	// honours the options.
	Provider Provider
	// New tells that the Service was never accepted before.
	New bool
}

// Result is what was understood. It depends on the Input alone.
type Result struct {
	Values Values
	// Accepted is the text of each option in force, to be kept for the next
	// Input. It is in the neutral form, whichever key it came from.
	Accepted map[Name]string
	// Problems are sorted by option name, then key; unknown keys come first.
	Problems []Problem
}

// Parse reads everything that a Service asks for. A value that cannot be
// understood becomes a Problem; it concerns its own option only, which then
// keeps its last accepted value or, without one, stays unset. An option that
// the provider does not honour becomes a Problem and stays unset.
func Parse(in Input) Result {
	p := parser{in: in, settings: map[Name]value{}, accepted: map[Name]string{}}
	options := rows()
	for _, o := range options {
		if sources := o.sources(in); o.Direction != Out && len(sources) > 0 {
			p.option(o, sources)
		}
	}
	p.unknown(options)
	slices.SortStableFunc(p.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Option, b.Option), cmp.Compare(a.Key, b.Key))
	})
	return Result{Values: Values{p.settings}, Accepted: p.accepted, Problems: p.problems}
}

type parser struct {
	in       Input
	settings map[Name]value
	accepted map[Name]string
	problems []Problem
}

// option reads one option from its sources, of which there is at least one.
// The first decides, also when it is wrong.
func (p *parser) option(o Option, sources []source) {
	first := sources[0]
	r := o.read(first)
	if p.in.Provider != "" && o.On(p.in.Provider).State != Supported {
		p.refuse(o, first, r)
		return
	}
	if m := o.fits(r.setting, p.in.Ports); r.set && m.what != "" {
		r = invalid(m)
	}
	if r.isInvalid() {
		p.hold(o, first, r.mistake)
		return
	}
	if r.kind != "" {
		p.problems = append(p.problems, readOtherwise(o, first, r))
	}
	for _, s := range sources[1:] {
		if !r.same(o.read(s)) {
			p.problems = append(p.problems, conflict(o, first, s))
		}
	}
	if r.set {
		p.accept(o, r.setting)
		p.problems = append(p.problems, unmatched(o, first, r.setting, p.in.Ports)...)
	}
}

// refuse reports an option that the provider does not honour. Where it will
// one day, a value that asks for nothing, or for what is done anyway, is no
// reason to complain: old keys with old values come along with a takeover.
func (p *parser) refuse(o Option, s source, r reading) {
	planned := o.On(p.in.Provider).State == Planned
	switch {
	case planned && r.isInvalid():
		p.problems = append(p.problems, invalidValue(o, s, r.mistake, standing{blocked: o.Exposure && p.in.New}))
	case planned && !r.set && r.kind != "":
		p.problems = append(p.problems, readOtherwise(o, s, r))
	case planned && (!r.set || r.setting.text == o.Default):
	default:
		p.problems = append(p.problems, notHonoured(o, s, p.in))
	}
}

func (p *parser) accept(o Option, s setting) {
	p.settings[o.Name] = value{o, s}
	p.accepted[o.Name] = s.text
}

// hold keeps the last accepted value of an option whose present one is wrong.
func (p *parser) hold(o Option, s source, m mistake) {
	last, held := p.in.Accepted[o.Name]
	if held {
		kept, wrong := o.strict(last)
		if held = wrong.what == ""; held {
			p.accept(o, kept)
		}
	}
	p.problems = append(p.problems, invalidValue(o, s, m, standing{
		held:    held,
		last:    last,
		blocked: o.Exposure && p.in.New && !held,
	}))
}

// unknown reports the keys that nobody knows under the prefixes that we read.
func (p *parser) unknown(options []Option) {
	known := map[string]bool{}
	for _, o := range options {
		for _, k := range o.Keys() {
			known[k] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.in.Annotations)) {
		v := p.in.Annotations[key]
		w, written := p.in.Written[key]
		if known[key] || written && v == w || !underPrefix(key) {
			continue
		}
		p.problems = append(p.problems, unknownKey(key, v, options))
	}
}

// prefixes returns what the keys that we claim to know begin with.
func prefixes() []string {
	return []string{Prefix, occmPrefix, metalLBPrefix, metalLBOldPrefix, cloudPrefix}
}

// underPrefix tells whether a key is one that we read all of.
func underPrefix(key string) bool {
	return slices.ContainsFunc(prefixes(), func(p string) bool { return strings.HasPrefix(key, p) })
}
