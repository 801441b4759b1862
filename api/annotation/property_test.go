package annotation

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// occmBool is what OCCM makes of a boolean annotation (documented behaviour:
// the exact words, everything else is the configured default).
func occmBool(v string, byDefault bool) bool {
	switch v {
	case "true":
		return true
	case "false":
		return false
	}
	return byDefault
}

func TestTakeoverNeverFlipsExposure(t *testing.T) {
	seed := uint64(20261201)
	rng := rand.New(rand.NewPCG(seed, 1))
	words := []string{"true", "false", "True", "FALSE", "TRUE", "1", "0", "t", "f", "yes", "no", "", " true", "true ", "internal", `"true"`}
	others := occmAnnotations(rng)
	for i := range 2000 {
		v := words[rng.IntN(len(words))]
		if rng.IntN(4) == 0 {
			v = randomText(rng)
		}
		annotations := map[string]string{internalKey: v}
		for range rng.IntN(5) {
			k := others[rng.IntN(len(others))]
			annotations[k] = randomText(rng)
		}
		for _, byDefault := range []bool{false, true} {
			r := Parse(Input{Annotations: annotations, New: true})
			got, set := r.Values.Bool(Internal)
			if !set {
				got = byDefault
			}
			if want := occmBool(v, byDefault); got != want {
				t.Fatalf("seed %d, case %d: %q makes the Service internal=%v, with OCCM it is %v", seed, i, v, got, want)
			}
		}
		for _, p := range Parse(Input{Annotations: annotations, New: true}).Problems {
			if p.Option == Internal && p.Exposure {
				t.Fatalf("seed %d, case %d: %q would cut a Service off that OCCM serves: %s", seed, i, v, p.Message)
			}
		}
	}
}

// occmAnnotations returns OCCM's keys in random order, but the one under test.
func occmAnnotations(rng *rand.Rand) []string {
	var keys []string
	for _, o := range Table() {
		for _, a := range o.Aliases {
			if a.Dialect == OCCM && a.Key != internalKey {
				keys = append(keys, a.Key)
			}
		}
	}
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys
}

func randomText(rng *rand.Rand) string {
	const letters = "truefalsTRUE01v2=,/: .-\x00é"
	runes := []rune(letters)
	var s strings.Builder
	for range rng.IntN(8) {
		s.WriteRune(runes[rng.IntN(len(runes))])
	}
	return s.String()
}

// FuzzParse holds what is true of every input: see checkResult.
func FuzzParse(f *testing.F) {
	f.Add(uint16(0), "v1,UDP/53=v2", uint16(1), "true", "", "", byte(0))
	f.Add(uint16(3), "70s", uint16(9), "0", "10.0.0.1/8", "10.0.0.0/8", byte(3))
	f.Add(uint16(40), "::ffff:1.2.3.4", uint16(41), "1.2.3.4,1.2.3.5", "not-an-ip", "\x00", byte(7))
	f.Add(uint16(77), "a, ,b", uint16(78), "V2", ",", "=", byte(12))
	var keys []string
	for _, o := range Table() {
		keys = append(keys, o.Keys()...)
	}
	f.Fuzz(func(t *testing.T, k1 uint16, v1 string, k2 uint16, v2, spec, accepted string, flags byte) {
		a, b := keys[int(k1)%len(keys)], keys[int(k2)%len(keys)]
		in := Input{
			Annotations: map[string]string{a: v1, b: v2, Prefix + v1: "x", a + v2: "y"},
			Spec:        map[Name]string{Address: spec, SourceRanges: spec},
			Accepted:    map[Name]string{},
			New:         flags&1 != 0,
			Provider:    append(Providers(), "")[int(flags>>2)%4],
		}
		for _, k := range []string{a, b} {
			if o, ok := Lookup(k); ok {
				in.Accepted[o.Name] = accepted
			}
		}
		if flags&2 != 0 {
			in.Ports = ports()
		}
		r := Parse(in)
		if d := cmp.Diff(r, Parse(in)); d != "" {
			t.Fatalf("two answers to one question:\n%s", d)
		}
		checkResult(t, in, r)
	})
}

func checkResult(t *testing.T, in Input, r Result) {
	t.Helper()
	again := Input{Annotations: map[string]string{}}
	for n, text := range r.Accepted {
		again.Annotations[n.Key()] = text
	}
	if back := Parse(again); !back.Values.Equal(r.Values) || cmp.Diff(r.Accepted, back.Accepted) != "" {
		t.Errorf("accepted %q is read back as %q with %v", r.Accepted, back.Accepted, back.Problems)
	}
	for _, p := range r.Problems {
		o, known := Lookup(string(p.Option))
		switch {
		case p.Message == "" || p.Key == "" || p.Kind == "":
			t.Errorf("an empty problem: %+v", p)
		case p.Kind == Unknown && p.Suggestion != "":
			if _, ok := Lookup(p.Suggestion); !ok {
				t.Errorf("suggested %q is unknown as well", p.Suggestion)
			}
		case p.Suggestion != "":
			if _, m := o.strict(p.Suggestion); !known || m.what != "" {
				t.Errorf("suggested %q is wrong as well: %s", p.Suggestion, p.Message)
			}
		}
		if p.Exposure && (!o.Exposure || !in.New || p.Held) {
			t.Errorf("a problem blocks the Service without need: %+v", p)
		}
		if p.Kind == Invalid && !p.Exposure && !strings.Contains(p.Message, "Still serving with the ") {
			t.Errorf("an invalid value without its consequence: %s", p.Message)
		}
	}
}

// A thousand random Services obey the same rules when no fuzzer runs.
func TestRandomServices(t *testing.T) {
	seed := uint64(77)
	rng := rand.New(rand.NewPCG(seed, 2))
	options := Table()
	for i := range 1000 {
		in := Input{
			Annotations: map[string]string{}, Accepted: map[Name]string{}, New: i%2 == 0,
			Provider: append(Providers(), "")[rng.IntN(4)],
		}
		for range rng.IntN(6) {
			o := options[rng.IntN(len(options))]
			values := append(samples(o), randomText(rng), strconv.Itoa(rng.IntN(100)-2), "1m")
			keys := o.Keys()
			in.Annotations[keys[rng.IntN(len(keys))]] = values[rng.IntN(len(values))]
			if !in.New && rng.IntN(2) == 0 {
				in.Accepted[o.Name] = values[rng.IntN(len(values))]
			}
		}
		if slices.Contains([]int{0, 1}, rng.IntN(4)) {
			in.Ports = ports()
		}
		if checkResult(t, in, Parse(in)); t.Failed() {
			t.Fatalf("seed %d, case %d: %q", seed, i, in.Annotations)
		}
	}
}
