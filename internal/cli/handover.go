package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// Those a Service can be released to.
const (
	toOCCM    = "occm"
	toMetalLB = "metallb"
	toNothing = "nothing"
)

// handover is what a release changes on one Service. All that is done already
// is left out, so a release that was cut short is repeated by the rest.
type handover struct {
	// annotations are to be added.
	annotations map[string]string
	record      bool
	unsay       bool
	// finalizers are those to remove, keep the others.
	finalizers []string
	keep       []string
	// notes are sentences about what a release cannot do.
	notes []string
}

// release is what is asked for.
type release struct {
	to string
	// pause keeps a live controller from taking the Service back.
	pause bool
}

// handoverOf decides what a release changes. recorded tells that there is a
// record of the Service.
func handoverOf(svc *corev1.Service, recorded bool, r release) handover {
	h := handover{annotations: map[string]string{}, record: recorded, unsay: kube.Speaks(svc)}
	if !recorded && !ours(svc) {
		return h
	}
	h.words(svc, r.to)
	if paused := annotation.Paused.Key(); r.pause && svc.Annotations[paused] != "true" {
		h.annotations[paused] = "true"
	}
	for _, f := range svc.Finalizers {
		if f == translate.Finalizer || f == translate.SharedFinalizer && classOf(svc) == "" && r.to != toOCCM {
			h.finalizers = append(h.finalizers, f)
		} else {
			h.keep = append(h.keep, f)
		}
	}
	if class := classOf(svc); strings.HasPrefix(class, translate.ClassPrefix) && r.to != toNothing {
		h.notes = append(h.notes, fmt.Sprintf("Its class %s cannot be changed, and %s serves none of that name; create the Service again without a class.", class, r.to))
	}
	return h
}

// empty tells whether there is nothing to do.
func (h handover) empty() bool {
	return len(h.annotations) == 0 && !h.record && !h.unsay && len(h.finalizers) == 0
}

// words says every option that is set under its neutral key in the words of a
// neighbour, too, where these can say it.
func (h *handover) words(svc *corev1.Service, to string) {
	if to == toNothing {
		return
	}
	for _, o := range annotation.Table() {
		value, set := svc.Annotations[o.Name.Key()]
		if !set || o.Direction == annotation.Out || o.Name == annotation.Paused || o.Name == annotation.ProviderName {
			continue
		}
		alias, known := aliasOf(o, to)
		if _, there := svc.Annotations[alias]; known && there {
			continue
		}
		said, ok := inOtherWords(o, value, alias)
		switch {
		case !known:
			h.notes = append(h.notes, fmt.Sprintf("%s has no word for %s: %q.", to, o.Name.Key(), value))
		case !ok:
			h.notes = append(h.notes, fmt.Sprintf("%s cannot say what %s: %q does.", alias, o.Name.Key(), value))
		default:
			h.annotations[alias] = said
		}
	}
}

// aliasOf is the annotation by which a neighbour knows an option.
func aliasOf(o annotation.Option, to string) (string, bool) {
	dialects := []annotation.Dialect{annotation.MetalLB}
	if to == toOCCM {
		dialects = []annotation.Dialect{annotation.OCCM, annotation.Core}
	}
	for _, a := range o.Aliases {
		if slices.Contains(dialects, a.Dialect) {
			return a.Key, true
		}
	}
	return "", false
}

// inOtherWords returns the value that means under an alias, by its own rules,
// what a value means under the neutral key.
func inOtherWords(o annotation.Option, value, alias string) (string, bool) {
	want, ok := annotation.Parse(annotation.Input{Annotations: map[string]string{o.Name.Key(): value}}).Accepted[o.Name]
	if !ok {
		return "", false
	}
	got := annotation.Parse(annotation.Input{Annotations: map[string]string{alias: want}})
	meant, ok := got.Accepted[o.Name]
	return want, ok && meant == want && len(got.Problems) == 0
}

// text says what is done on a Service, one line each.
func (h handover) text(svc *corev1.Service) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s:", kube.KeyOf(svc))
	if h.empty() {
		s.WriteString(" nothing to do")
	}
	s.WriteString("\n")
	for _, key := range slices.Sorted(maps.Keys(h.annotations)) {
		fmt.Fprintf(&s, "  set annotation %s: %q\n", key, h.annotations[key])
	}
	if h.record {
		s.WriteString("  delete Fairlead's record of it\n")
	}
	if h.unsay {
		fmt.Fprintf(&s, "  remove Fairlead's conditions and annotation %s\n", annotation.Observed.Key())
	}
	for _, f := range h.finalizers {
		fmt.Fprintf(&s, "  remove finalizer %s\n", f)
	}
	for _, n := range h.notes {
		fmt.Fprintf(&s, "  ! %s\n", n)
	}
	return s.String()
}
