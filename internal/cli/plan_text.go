package cli

import (
	"fmt"
	"strings"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// planned is the plan for one Service, or why there is none.
type planned struct {
	// passed says why the Service is passed over; everything else is then zero.
	passed     string
	provider   string
	asked      translate.Result
	portErrors []model.PortError
	// refusals are sentences about the address, notes about the plan itself.
	refusals []string
	notes    []string
	plan     plan.Plan
}

// planItem is a plan in a list: an item of PlanList.
type planItem struct {
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Provider  string        `json:"provider"`
	Summary   string        `json:"summary"`
	Problems  []planProblem `json:"problems"`
	Notes     []string      `json:"notes"`
	Steps     []planStep    `json:"steps"`
}

// planProblem is one thing that is wrong with a manifest.
type planProblem struct {
	// Key is the annotation or spec field, or the port; empty for an address.
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
	// Refused tells that what is asked for is not done.
	Refused bool `json:"refused"`
}

type planStep struct {
	Verb    string       `json:"verb"`
	Kind    string       `json:"kind"`
	Port    string       `json:"port,omitempty"`
	Member  string       `json:"member,omitempty"`
	Changes []planChange `json:"changes,omitempty"`
}

type planChange struct {
	Field string `json:"field"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
}

func (p planned) problems() []planProblem {
	out := []planProblem{}
	for _, x := range p.asked.Problems {
		out = append(out, planProblem{Key: x.Key, Message: x.Message, Refused: refuses(x)})
	}
	for _, text := range p.refusals {
		out = append(out, planProblem{Message: text, Refused: true})
	}
	for _, e := range p.portErrors {
		out = append(out, planProblem{Key: e.Port.String(), Message: e.Port.String() + ": " + strings.TrimSuffix(e.Message, ".") + ".", Refused: true})
	}
	return out
}

// text is the planner's own text, then what is wrong.
func (p planned) text(wide bool) string {
	var s strings.Builder
	s.WriteString(p.plan.Text())
	for _, x := range p.problems() {
		fmt.Fprintf(&s, "  %s %s\n", problemMark(x.Refused), x.Message)
	}
	for _, n := range p.allNotes() {
		fmt.Fprintf(&s, "  ! %s\n", n)
	}
	if wide && !p.plan.Remove {
		s.WriteString("  asked for:\n")
		for line := range strings.Lines(p.plan.Want.Text()) {
			s.WriteString("    " + line)
		}
	}
	return s.String()
}

// allNotes are what follows from the problems, then the notes about the plan.
func (p planned) allNotes() []string {
	notes := []string{}
	if p.asked.Blocked {
		notes = append(notes, "Who may reach the Service is in doubt, so it gets nothing until that is mended.")
	}
	if p.asked.Paused {
		notes = append(notes, fmt.Sprintf("The Service is paused: nothing of this is done before %s is removed.", annotation.Paused.Key()))
	}
	return append(notes, p.notes...)
}

func (p planned) item() planItem {
	i := planItem{
		Namespace: p.plan.Key.Namespace, Name: p.plan.Key.Name, Provider: p.provider, Summary: p.plan.Summary(),
		Problems: p.problems(), Notes: p.allNotes(), Steps: []planStep{},
	}
	for _, s := range p.plan.Steps {
		step := planStep{Verb: string(s.Verb), Kind: string(s.Kind)}
		if s.Port != (model.Port{}) {
			step.Port = s.Port.String()
		}
		if s.Member.IsValid() {
			step.Member = s.Member.String()
		}
		for _, c := range s.Changes {
			step.Changes = append(step.Changes, planChange(c))
		}
		i.Steps = append(i.Steps, step)
	}
	return i
}

// plansSummary is the last line. What is only to be known is no problem.
func plansSummary(plans []planned) string {
	var all plan.Plan
	problems := 0
	for _, p := range plans {
		all.Steps = append(all.Steps, p.plan.Steps...)
		for _, x := range p.problems() {
			if x.Refused {
				problems++
			}
		}
	}
	return fmt.Sprintf("%s: %s; %s", count(len(plans), "Service"), all.Summary(), count(problems, "problem"))
}

func printPlans(w world, o planOptions, m manifest, plans []planned) error {
	var made []planned
	for _, line := range m.passed {
		fmt.Fprintln(w.Err, line)
	}
	steps := 0
	for _, p := range plans {
		if p.passed != "" {
			fmt.Fprintln(w.Err, p.passed)
			continue
		}
		made = append(made, p)
		steps += len(p.plan.Steps)
	}
	if err := writePlans(w, o.output.value, made); err != nil {
		return err
	}
	if o.detailed && steps > 0 {
		return said(ExitUsage)
	}
	return nil
}

func writePlans(w world, format string, made []planned) error {
	if format == "json" || format == "yaml" {
		items := make([]planItem, 0, len(made))
		for _, p := range made {
			items = append(items, p.item())
		}
		text, err := encode(format, "PlanList", items)
		if err != nil {
			return err
		}
		fmt.Fprint(w.Out, text)
		return nil
	}
	if len(made) == 0 {
		fmt.Fprintln(w.Err, "The manifest has no Service of type LoadBalancer that Fairlead would serve.")
		return nil
	}
	for _, p := range made {
		fmt.Fprintln(w.Out, p.text(format == "wide"))
	}
	fmt.Fprintln(w.Out, plansSummary(made))
	return nil
}
