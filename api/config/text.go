package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Markdown returns the page about the configuration file.
func Markdown() string {
	var s strings.Builder
	s.WriteString("# Configuration\n\n" +
		"<!-- Made from api/config by \"make generate\"; changes here are lost. -->\n\n" +
		"Fairlead reads one YAML file, named by `--config`. What it does not set has the default below. A file with a mistake is\n" +
		"refused as a whole, with the line and path of each mistake; `fairlead config check FILE` does nothing else. The file\n" +
		"[fairlead.reference.yaml](fairlead.reference.yaml) holds every field with its default. It begins with\n\n" +
		"```yaml\napiVersion: " + APIVersion + "\nkind: " + Kind + "\n```\n\n" +
		"| Field | Type | Allowed | Default |\n|---|---|---|---|\n")
	c := New()
	for _, f := range Fields() {
		fmt.Fprintf(&s, "| `%s` | %s | %s | `%s` |\n", f.Path, f.Type, f.takes(), f.text(&c))
	}
	for _, f := range Fields() {
		fmt.Fprintf(&s, "\n## %s\n\n%s\n", f.Path, fold(f.Doc, 118, ""))
	}
	return s.String()
}

// Reference returns a configuration file with every field at its default, each
// with its documentation as a comment. Parse of it gives New.
func Reference() string {
	var s strings.Builder
	s.WriteString("# Every field of Fairlead's configuration, with its default.\n" +
		"# Made from api/config by \"make generate\"; changes here are lost.\n" +
		"apiVersion: " + APIVersion + "\nkind: " + Kind + "\n")
	c := New()
	section := ""
	for _, f := range Fields() {
		in, name, nested := strings.Cut(f.Path, ".")
		margin := "  "
		if !nested {
			in, name, margin = "", f.Path, ""
		}
		s.WriteString("\n")
		if in != section && nested {
			s.WriteString(in + ":\n")
		}
		section = in
		comment := f.Doc
		if f.takes() != "" {
			comment += " Allowed: " + f.takes() + "."
		}
		s.WriteString(fold(strings.ReplaceAll(comment, "`", ""), 90, margin+"# ") + "\n")
		fmt.Fprintf(&s, "%s%s: %s\n", margin, name, f.text(&c))
	}
	return s.String()
}

// takes says which values a field takes, or "".
func (f Field) takes() string {
	if f.Type == Boolean {
		return "true, false"
	}
	return f.values()
}

// text returns the field's value as YAML.
func (f Field) text(c *Config) string {
	switch at := f.at(c).(type) {
	case *string:
		return scalar(*at)
	case *Mode:
		return scalar(string(*at))
	case *int:
		return strconv.Itoa(*at)
	case *bool:
		return strconv.FormatBool(*at)
	case *time.Duration:
		return durationText(*at)
	case *[]string:
		items := make([]string, len(*at))
		for i, x := range *at {
			items[i] = scalar(x)
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return ""
}

// durationText leaves out the zero parts of "10m0s".
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// scalar quotes what YAML would not read as a plain text.
func scalar(v string) string {
	plain := v != "" && !strings.ContainsFunc(v, func(r rune) bool {
		return (r < 'a' || r > 'z') && r != '-'
	})
	if plain {
		return v
	}
	return strconv.Quote(v)
}

// fold breaks a paragraph into lines of at most so many bytes, each after a margin.
func fold(text string, width int, margin string) string {
	var lines []string
	line := margin
	for _, w := range strings.Fields(text) {
		if line != margin && len(line)+1+len(w) > width {
			lines = append(lines, line)
			line = margin
		}
		if line != margin {
			line += " "
		}
		line += w
	}
	return strings.Join(append(lines, line), "\n")
}
