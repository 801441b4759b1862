package cli

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/status"
)

// shownEvents bounds how many events are listed.
const shownEvents = 8

// text renders a Service's way, the cause and remedy, and its events.
func (d described) text(wide bool) string {
	f, hops := d.facts, d.hops
	var s strings.Builder
	fmt.Fprintf(&s, "Service %s, %s old\n", kube.KeyOf(f.svc), age(f.svc.CreationTimestamp.Time, f.now))
	if provider := providerOf(f.svc, f.record); provider != "" {
		fmt.Fprintf(&s, "Provider %s\n", provider)
	}
	s.WriteString("\n")
	for i, h := range hops {
		fmt.Fprintf(&s, "%d %s %-11s %s\n", i+1, h.mark(), h.name, h.says)
		for _, d := range h.details {
			fmt.Fprintf(&s, "%16s%s\n", "", d)
		}
	}
	s.WriteString("\n")
	if h := blamed(hops); h != nil {
		fmt.Fprintf(&s, "Cause:  %s\nRemedy: %s\n", h.cause, h.remedy)
	} else {
		s.WriteString("Nothing is wrong.\n")
	}
	for _, n := range d.notes() {
		fmt.Fprintf(&s, "Note:   %s\n", n)
	}
	if wide {
		s.WriteString(d.more())
	}
	if len(f.events) > 0 {
		s.WriteString("\nEvents:\n" + eventsText(f))
	}
	return s.String()
}

func eventsText(f facts) string {
	var rows [][]string
	for i, e := range f.events {
		if i == shownEvents {
			break
		}
		rows = append(rows, []string{"  " + age(e.LastTimestamp.Time, f.now), e.Type, e.Reason, e.Message})
	}
	return table(rows)
}

// more is what -o wide adds: the conditions, and what is asked for.
func (d described) more() string {
	var s strings.Builder
	if len(d.svc.Status.Conditions) > 0 {
		s.WriteString("\nConditions:\n")
		var rows [][]string
		for _, c := range d.svc.Status.Conditions {
			rows = append(rows, []string{"  " + age(c.LastTransitionTime.Time, d.now), c.Type, string(c.Status), c.Reason, c.Message})
		}
		s.WriteString(table(rows))
	}
	if asked := haveOf(d.facts, d.svc, providerOf(d.svc, d.record)); asked.Exists {
		s.WriteString("\nAsked for:\n")
		for line := range strings.Lines(asked.Balancer.Text()) {
			s.WriteString("  " + line)
		}
	}
	return s.String()
}

// notes are sentences beside the cause: what the controller has to say while
// nothing is wrong, and what could not be read.
func (d described) notes() []string {
	notes := []string{}
	c := kube.FindCondition(d.svc, status.Programmed)
	if blamed(d.hops) == nil && c != nil && c.Status == metav1.ConditionTrue {
		notes = append(notes, furtherSentences(c.Message)...)
	}
	return append(notes, d.unread...)
}

// furtherSentences are those of a condition that say more than where it is served.
func furtherSentences(message string) []string {
	var out []string
	for begin := 0; begin < len(message); {
		end := sentenceEnd(message, begin)
		s := strings.TrimSpace(message[begin:end])
		if !strings.HasPrefix(s, "Served at ") && !strings.Contains(s, " listens at ") {
			out = append(out, s)
		}
		begin = end
	}
	return out
}

// sentenceEnd is the index behind the sentence that begins at an index: at a
// full stop before a blank and a capital letter or a digit, or at the end.
func sentenceEnd(text string, begin int) int {
	for i := begin; i+2 < len(text); i++ {
		next := text[i+2]
		if text[i] == '.' && text[i+1] == ' ' && (next >= 'A' && next <= 'Z' || next >= '0' && next <= '9') {
			return i + 1
		}
	}
	return len(text)
}
