package cli

import (
	"fmt"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// releasing is one Service on its way out of Fairlead's hands.
type releasing struct {
	handover
	key    model.Key
	done   bool
	failed error
}

// releaseItem is a release in a list: an item of ReleaseList.
type releaseItem struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// State is Planned, Released, Failed or Unchanged.
	State       string            `json:"state"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Record and Reports tell that the record, and the conditions with their
	// annotation, are removed.
	Record     bool     `json:"record"`
	Reports    bool     `json:"reports"`
	Finalizers []string `json:"finalizers"`
	Notes      []string `json:"notes"`
	Error      string   `json:"error,omitempty"`
}

func (d releasing) item() releaseItem {
	i := releaseItem{
		Namespace: d.key.Namespace, Name: d.key.Name, State: d.state(), Annotations: d.annotations,
		Record: d.record, Reports: d.unsay,
		Finalizers: append([]string{}, d.finalizers...), Notes: append([]string{}, d.notes...),
	}
	if d.failed != nil {
		i.Error = d.failed.Error()
	}
	return i
}

func (d releasing) state() string {
	switch {
	case d.failed != nil:
		return "Failed"
	case d.done:
		return "Released"
	case d.empty():
		return "Unchanged"
	}
	return "Planned"
}

func printReleases(w world, format string, work []releasing) error {
	items := make([]releaseItem, 0, len(work))
	for _, d := range work {
		items = append(items, d.item())
	}
	text, err := encode(format, "ReleaseList", items)
	if err != nil {
		return err
	}
	fmt.Fprint(w.Out, text)
	return nil
}
