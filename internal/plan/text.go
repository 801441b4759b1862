package plan

import (
	"fmt"
	"strings"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// Summary counts the steps: "4 to create, 1 to change, 0 to delete", or
// "nothing to do".
func (p Plan) Summary() string {
	if p.Empty() {
		return "nothing to do"
	}
	var created, changed, deleted int
	for _, s := range p.Steps {
		switch s.Verb {
		case Create:
			created++
		case Update:
			changed++
		case Delete:
			deleted++
		}
	}
	return fmt.Sprintf("%d to create, %d to change, %d to delete", created, changed, deleted)
}

// Text returns the plan for people: a line with the key and the summary, then
// one line a step, in the order in which they are carried out, marked + for a
// creation, ~ for a change and - for a deletion. It is the only rendering of
// a plan: logs, golden files, the command line and the status page show it.
func (p Plan) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s\n", p.Key, p.Summary())
	for _, s := range p.Steps {
		fmt.Fprintf(&out, "  %s %s%s\n", mark(s.Verb), p.objectText(s), changesText(s))
	}
	return out.String()
}

func mark(v Verb) string {
	switch v {
	case Create:
		return "+"
	case Update:
		return "~"
	case Delete:
		return "-"
	}
	return "?"
}

// objectText names the object of a step: "member 10.0.0.7:8080 of TCP/443 (web-1)".
func (p Plan) objectText(s Step) string {
	switch s.Kind {
	case LoadBalancer:
		return string(s.Kind) + " " + p.Key.String() + p.placeText(s)
	case Listener:
		return string(s.Kind) + " " + s.Port.String()
	case Pool, HealthMonitor:
		return string(s.Kind) + " of " + s.Port.String()
	case MemberKind:
		return string(s.Kind) + " " + s.Member.String() + " of " + s.Port.String() + p.memberName(s)
	}
	return string(s.Kind)
}

// placeText says where a load balancer is created or was. A change of its
// addresses says so itself.
func (p Plan) placeText(s Step) string {
	addresses := p.subject(s).Addresses
	if s.Verb == Update || len(addresses) == 0 {
		return ""
	}
	return " at " + model.JoinAddrs(addresses)
}

func (p Plan) memberName(s Step) string {
	l, _ := p.subject(s).Find(s.Port)
	m, _ := find(l.Pool.Members, model.Member{Address: s.Member})
	if m.Name == "" {
		return ""
	}
	return " (" + m.Name + ")"
}

// subject returns the balancer that holds the object of a step.
func (p Plan) subject(s Step) model.Balancer {
	if s.Verb == Delete {
		return p.Have.Balancer
	}
	return p.Want
}

func changesText(s Step) string {
	var text []string
	for _, c := range s.Changes {
		switch {
		case s.Verb != Create:
			text = append(text, fmt.Sprintf("%s %s → %s", c.Field, valueText(c.Field, c.From), valueText(c.Field, c.To)))
		case c.Field != FieldAddresses:
			text = append(text, c.Field+" "+c.To)
		}
	}
	if len(text) == 0 {
		return ""
	}
	return ": " + strings.Join(text, "; ")
}

// valueText names the value that is not set.
func valueText(field, value string) string {
	switch {
	case value != "":
		return value
	case field == FieldAddresses:
		return "none"
	}
	return "default"
}
