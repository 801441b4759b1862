package cli

import (
	"fmt"
	"strings"

	"github.com/fairlead-lb/fairlead/internal/kube"
)

// shownEvents bounds how many events are listed.
const shownEvents = 8

// describeText renders a Service's way, the cause and remedy, and its events.
func describeText(f facts, hops []hop) string {
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
	for _, u := range f.unread {
		fmt.Fprintf(&s, "Note:   %s\n", u)
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
