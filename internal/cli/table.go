package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// listVersion is the version of the lists that -o json and yaml print. Fields
// are added to it, never renamed or removed.
const listVersion = "cli.fairlead.dev/v1"

// list is what -o json and yaml print.
type list[T any] struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Items      []T    `json:"items"`
}

// encode renders items as a list in JSON or YAML.
func encode[T any](format, kind string, items []T) (string, error) {
	if items == nil {
		items = []T{}
	}
	l := list[T]{APIVersion: listVersion, Kind: kind, Items: items}
	if format == "yaml" {
		text, err := yaml.Marshal(l)
		if err != nil {
			return "", fmt.Errorf("encoding the output: %w", err)
		}
		return string(text), nil
	}
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding the output: %w", err)
	}
	return string(text) + "\n", nil
}

// table aligns rows of cells, three blanks apart.
func table(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var s strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+3))
		}
		s.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return s.String()
}

// orNone shows what is empty.
func orNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}

// age is a span of time in its greatest units, as kubectl shows it.
func age(since, now time.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	d := max(now.Sub(since), 0)
	const day = 24 * time.Hour
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d/time.Second))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d/time.Minute))
	case d < 2*day:
		return fmt.Sprintf("%dh", int(d/time.Hour))
	}
	return fmt.Sprintf("%dd", int(d/day))
}

// count writes "1 Service" and "2 Services".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
