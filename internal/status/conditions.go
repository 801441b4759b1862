package status

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// nothingServed begins the sentence that says so, here and in the problems.
const nothingServed = "Nothing is served until"

// messageLimit bounds condition and event texts, in bytes: an Event's message
// may have 1,024 (core/v1 validation).
const messageLimit = 1000

// problemClass is how a kind of problem bears on the Accepted condition. The
// order of the table is the order of severity.
type problemClass struct {
	kind    annotation.Kind
	reason  string
	refuses bool
	warns   bool
}

func problemClasses() []problemClass {
	return []problemClass{
		{annotation.Invalid, ReasonInvalidOptions, true, true},
		{annotation.Unknown, ReasonUnknownOptions, true, true},
		{annotation.NotYet, ReasonOptionsNotYet, true, true},
		{annotation.Conflict, ReasonOptionsConflict, false, true},
		{annotation.Unmatched, ReasonOptionsUnmatched, false, true},
		{annotation.OldMeaning, ReasonOptionsOldMeaning, false, true},
		{annotation.Adjusted, ReasonOptionsAdjusted, false, true},
		{annotation.NotApplicable, ReasonOptionsNotApplicable, false, false},
	}
}

func acceptedCondition(in Input) Condition {
	c := Condition{Type: Accepted, True: true, Reason: ReasonAccepted, Message: "The Service is understood."}
	for _, class := range problemClasses() {
		if hasKind(in.Problems, class.kind) {
			c.Reason, c.True = class.reason, !class.refuses
			c.Message = problemText(in.Problems)
			break
		}
	}
	if in.Blocked {
		c.True = false
		if !strings.Contains(c.Message, nothingServed) {
			c.Message = clip(join(nothingServed+" this is mended.", c.Message))
		}
	}
	return c
}

func hasKind(problems []annotation.Problem, k annotation.Kind) bool {
	return slices.ContainsFunc(problems, func(p annotation.Problem) bool { return p.Kind == k })
}

// problemText lists the problems by severity, each one sentence of its own.
func problemText(problems []annotation.Problem) string {
	var sentences []string
	for _, class := range problemClasses() {
		for _, p := range problems {
			if p.Kind == class.kind {
				sentences = append(sentences, p.Message)
			}
		}
	}
	return sentencesText(sentences)
}

func programmedCondition(in Input) Condition {
	c := Condition{Type: Programmed}
	switch {
	case in.Rival != "":
		c.Reason = ReasonConflict
		c.Message = fmt.Sprintf("Field manager %q keeps rewriting the load balancer status; stop that controller, or give the Service a loadBalancerClass of one of the two.", in.Rival)
	case in.Blocked:
		c.Reason = ReasonNotAccepted
		c.Message = "An option that decides who can reach the Service is not understood, so nothing was created; see condition Accepted."
	case in.Address.Set() && len(in.Want.Addresses) == 0:
		c.Reason, c.Message = in.Address.Reason, in.Address.Message
	case in.Hold.Set():
		c.Reason, c.Message = in.Hold.Reason, in.Hold.Message
	case in.Failure.Set():
		c.Reason, c.Message = in.Failure.Reason, in.Failure.Message
	case len(in.PortErrors) > 0:
		c.Reason, c.Message = ReasonPortsFailed, portErrorsText(in)
	case in.Address.Set():
		c.Reason, c.Message = ReasonAddressNotice, join(strings.TrimSuffix(in.Address.Message, ".")+".", servingText(in))
	default:
		c.True, c.Reason, c.Message = true, ReasonProgrammed, servingText(in)
	}
	c.Message = clip(c.Message)
	return c
}

func portErrorsText(in Input) string {
	sentences := make([]string, 0, len(in.PortErrors)+1)
	for _, e := range in.PortErrors {
		sentences = append(sentences, fmt.Sprintf("%s: %s.", e.Port, strings.TrimSuffix(e.Message, ".")))
	}
	if n := len(in.Ports) - len(in.PortErrors); n > 0 {
		sentences = append(sentences, "The other ports are served.")
	}
	return sentencesText(sentences)
}

// servingText says what is served where. It holds no number that changes with
// every pod, so that endpoints coming and going write nothing.
func servingText(in Input) string {
	sentences := []string{fmt.Sprintf("Served at %s.", model.JoinAddrs(in.Want.Addresses))}
	for _, h := range in.Observed.Health {
		if len(h.At) > 0 {
			sentences = append(sentences, fmt.Sprintf("%s listens at %s.", h.Port, joinSockets(h)))
		}
	}
	if in.Note != "" {
		// It says why members are missing better than their absence does.
		return sentencesText(append(sentences, in.Note))
	}
	for _, l := range in.Want.Listeners {
		if s := endpointsText(l, in.Observed.Health); s != "" {
			sentences = append(sentences, s)
		}
	}
	return sentencesText(sentences)
}

func joinSockets(h model.PortHealth) string {
	text := make([]string, len(h.At))
	for i, a := range h.At {
		text[i] = a.String()
	}
	return strings.Join(text, ", ")
}

// endpointsText says why a listener answers nobody, or which member needs help.
func endpointsText(l model.Listener, health []model.PortHealth) string {
	if !slices.ContainsFunc(l.Pool.Members, func(m model.Member) bool { return m.Weight > 0 }) {
		return fmt.Sprintf("%s has no ready endpoints; check the Service's selector and the readiness of its pods.", l.Port)
	}
	for _, h := range health {
		if h.Port != l.Port {
			continue
		}
		for _, m := range h.Members {
			if m.Cause != "" {
				return fmt.Sprintf("%s: member %s: %s.", l.Port, m.Address, strings.TrimSuffix(m.Cause, "."))
			}
		}
	}
	return ""
}

func portsCondition(errors []model.PortError) (Condition, bool) {
	if len(errors) == 0 {
		return Condition{}, false
	}
	sentences := make([]string, len(errors))
	for i, e := range errors {
		sentences[i] = fmt.Sprintf("%s: %s.", e.Port, strings.TrimSuffix(e.Message, "."))
	}
	return Condition{Type: PortsError, True: true, Reason: errors[0].Reason, Message: sentencesText(sentences)}, true
}

// warning is the text of the condition that matters most: what keeps the
// Service from being served, else what was not understood.
func warning(in Input, accepted, programmed Condition) Notice {
	if !programmed.True && programmed.Reason != ReasonNotAccepted {
		return Notice{Reason: programmed.Reason, Message: programmed.Message}
	}
	if !accepted.True {
		return Notice{Reason: accepted.Reason, Message: accepted.Message}
	}
	for _, class := range problemClasses() {
		if class.warns && hasKind(in.Problems, class.kind) {
			return Notice{Reason: accepted.Reason, Message: accepted.Message}
		}
	}
	return Notice{}
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + " " + b
}

// sentencesText joins sentences, and says how many it had to leave out.
func sentencesText(sentences []string) string {
	text := ""
	for i, s := range sentences {
		next := join(text, s)
		if len(next) > messageLimit-40 && i > 0 {
			return fmt.Sprintf("%s (and %d more)", text, len(sentences)-i)
		}
		text = next
	}
	return clip(text)
}

// clip cuts a text at a rune boundary so that it fits a message.
func clip(s string) string {
	if len(s) <= messageLimit {
		return s
	}
	cut := messageLimit - len("…")
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + "…"
}
