package annotation

import (
	"fmt"
	"strings"
)

// Explain returns everything about one option, as text for a terminal.
func Explain(o Option) string {
	var s strings.Builder
	line := func(label, format string, args ...any) {
		if label != "" { // otherwise the line goes on
			label += ":"
		}
		fmt.Fprintf(&s, "%-11s%s\n", label, fmt.Sprintf(format, args...))
	}
	line("KEY", "%s", o.Name.Key())
	line("TYPE", "%s", o.typeText())
	line("DEFAULT", "%s", o.Default)
	for i, a := range o.aliasTexts() {
		line([]string{"ALIASES", ""}[min(i, 1)], "%s", a)
	}
	for i, p := range Providers() {
		line([]string{"PROVIDERS", ""}[min(i, 1)], "%-11s %s", p, o.On(p).text())
	}
	line("LIVE", "%s", o.liveText())
	if o.PerPort {
		line("PER PORT", "%s", o.perPortText())
	}
	line("SINCE", "%s", o.Since)
	return s.String() + "\nDESCRIPTION:\n" + indent(wrap(o.Doc, 76)) + "\nEXAMPLE:\n" + indent(o.Example)
}

// ExplainAll returns one line for each option, as text for a terminal.
func ExplainAll() string {
	rows := [][]string{{"OPTION", "TYPE", "LOCAL", "OPENSTACK", "BARE-METAL", "ALIASES"}}
	for _, o := range Table() {
		row := []string{string(o.Name), string(o.Type)}
		for _, p := range Providers() {
			row = append(row, string(o.On(p).State))
		}
		var keys []string
		for _, a := range o.Aliases {
			keys = append(keys, a.Key)
		}
		rows = append(rows, append(row, strings.Join(keys, ", ")))
	}
	return columns(rows) + "\nThe annotation of an option is " + Prefix + "<option>. \"fairlead explain OPTION\" says more; any alias will do.\n"
}

// columns aligns rows of cells.
func columns(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var s strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[i], cell)
		}
		s.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return s.String()
}

func (o Option) typeText() string {
	switch {
	case o.Direction == Out:
		return string(o.Type) + ", written by Fairlead"
	case o.Type == Text:
		return o.Takes()
	case o.Empty == EmptySet:
		return string(o.Type) + " (" + o.Takes() + ", or nothing)"
	}
	return string(o.Type) + " (" + o.Takes() + ")"
}

func (o Option) aliasTexts() []string {
	var out []string
	if o.SpecField != "" {
		out = append(out, o.SpecField)
	}
	for _, a := range o.Aliases {
		out = append(out, a.Key+" ("+string(a.Dialect)+")")
	}
	if len(out) == 0 {
		return []string{"none"}
	}
	return out
}

func (o Option) liveText() string {
	switch {
	case o.Direction == Out:
		return "it is written, not read"
	case o.Live:
		return "yes, a change takes effect on a Service that is being served"
	}
	return "no, a change takes effect when the Service is re-created"
}

func (o Option) perPortText() string {
	if o.TCPOnly {
		return "yes, such as " + o.perPortExample() + "; a value alone means all TCP ports"
	}
	return "yes, such as " + o.perPortExample() + "; a value alone means all ports"
}

// perPortExample shows two ports with a value each.
func (o Option) perPortExample() string {
	a, b := "REF", "REF"
	switch o.Type {
	case Bool:
		a, b = "true", "false"
	case Enum:
		a, b = o.Allowed[0], o.Allowed[1]
	case Int, Seconds:
		a, b = "3", "5"
	default:
	}
	return "443=" + a + ",http=" + b
}

func (s Support) text() string {
	if s.Note == "" {
		return string(s.State)
	}
	return string(s.State) + ". " + s.Note
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"
}

// wrap breaks a paragraph into lines of at most so many bytes, where it can.
func wrap(text string, width int) string {
	var s strings.Builder
	at := 0
	for i, w := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(w) > width:
			s.WriteString("\n")
			at = 0
		default:
			s.WriteString(" ")
			at++
		}
		s.WriteString(w)
		at += len(w)
	}
	return s.String()
}
