package cli

import (
	"fmt"
	"strings"
	"time"
)

// description is a Service's way in a list: an item of DescriptionList.
type description struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Provider  string `json:"provider,omitempty"`
	// Wrong tells that a hop is not as it should be; Cause and Remedy are set then.
	Wrong      bool                 `json:"wrong"`
	Cause      string               `json:"cause,omitempty"`
	Remedy     string               `json:"remedy,omitempty"`
	Hops       []describedHop       `json:"hops"`
	Notes      []string             `json:"notes"`
	Conditions []describedCondition `json:"conditions"`
	Events     []describedEvent     `json:"events"`
}

type describedHop struct {
	Name string `json:"name"`
	// State is OK, Wrong or Unknown.
	State   string   `json:"state"`
	Says    string   `json:"says"`
	Details []string `json:"details,omitempty"`
}

type describedCondition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

type describedEvent struct {
	Last    time.Time `json:"last"`
	Type    string    `json:"type"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

// item is a Service's way as data.
func (d described) item() description {
	out := description{
		Namespace: d.svc.Namespace, Name: d.svc.Name, Provider: providerOf(d.svc, d.record), Notes: d.notes(),
		Hops: []describedHop{}, Conditions: []describedCondition{}, Events: []describedEvent{},
	}
	if h := blamed(d.hops); h != nil {
		out.Wrong, out.Cause, out.Remedy = true, h.cause, h.remedy
	}
	for _, h := range d.hops {
		x := describedHop{Name: h.name, State: h.state(), Says: h.says}
		for _, line := range h.details {
			x.Details = append(x.Details, strings.TrimSpace(line))
		}
		out.Hops = append(out.Hops, x)
	}
	for _, c := range d.svc.Status.Conditions {
		out.Conditions = append(out.Conditions, describedCondition{c.Type, string(c.Status), c.Reason, c.Message, c.LastTransitionTime.UTC()})
	}
	for _, e := range d.events {
		out.Events = append(out.Events, describedEvent{e.LastTimestamp.UTC(), e.Type, e.Reason, e.Message})
	}
	return out
}

func (h hop) state() string {
	switch {
	case h.unknown:
		return "Unknown"
	case h.wrong:
		return "Wrong"
	}
	return "OK"
}

// printDescribed prints Services one after the other, or as a list.
func printDescribed(w world, format string, all []described) error {
	if format == "json" || format == "yaml" {
		items := make([]description, 0, len(all))
		for _, d := range all {
			items = append(items, d.item())
		}
		text, err := encode(format, "DescriptionList", items)
		if err != nil {
			return err
		}
		fmt.Fprint(w.Out, text)
		return nil
	}
	for i, d := range all {
		if i > 0 {
			fmt.Fprintln(w.Out)
		}
		fmt.Fprint(w.Out, d.text(format == "wide"))
	}
	return nil
}
