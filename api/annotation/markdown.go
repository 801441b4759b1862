package annotation

import (
	"fmt"
	"strings"
)

const markdownHead = `# Options of a Service

<!-- Made from api/annotation by "make generate"; changes here are lost. -->

What a Service asks of its load balancer beyond its spec, it asks by annotations. Every option has the name
` + "`fairlead.dev/<option>`" + `, works the same with every provider that honours it, and may have older names besides. On the
command line, ` + "`fairlead explain OPTION`" + ` shows what is written here.

## How values are read

* **Who wins.** A field of the spec wins over the neutral name, and that over an older name; of MetalLB's two prefixes,
  the newer one wins. Where they differ, a condition says so.
* **The neutral names are strict.** A value that cannot be understood is reported with what is allowed, and often with
  what was probably meant. Only that option is concerned: it keeps the last value that was accepted, or its default.
  Ports, pods and nodes are followed all the same.
* **Exposure.** While a wrong value leaves open who can reach a new Service, the Service is not served. That concerns
  %s.
* **Older names keep their old meaning**, to the letter. Under ` + "`loadbalancer.openstack.org/`" + `, ` + "`True`" + ` is not
  ` + "`true`" + ` and a number that is none is as good as absent, as the OpenStack cloud controller manager has it; a
  condition points at such values. What Octavia or MetalLB would refuse is reported as wrong.
* **Output.** A value that Fairlead, or the controller before it, wrote itself is never taken for a request.
* **Not honoured.** An option that the provider has no use for, or does not honour yet, is named in a condition. It is
  never dropped in silence.
* **Typing errors.** An unknown annotation under one of the prefixes is reported, with the nearest known one.

## Values for single ports

Some options can be given for single ports. The value is a list, parted by commas: first, if wanted, the value for the
whole Service, then ` + "`port=value`" + `. The port is a number, which means TCP, a protocol and number, or the name of the
Service's port. The former two count for more than a name. ` + "`v1,UDP/53=v2,admin=off`" + ` means v1 for each TCP port but
that named admin, and v2 for UDP port 53.

`

// Markdown returns the page about all options.
func Markdown() string {
	var s strings.Builder
	var exposure []string
	for _, o := range Table() {
		if o.Exposure {
			exposure = append(exposure, "`"+string(o.Name)+"`")
		}
	}
	fmt.Fprintf(&s, markdownHead, strings.Join(exposure, ", "))
	s.WriteString("## Which option works with which provider\n\nA cell that says *supported* names the test that proves it.\n\n")
	s.WriteString(table(true))
	for _, o := range Table() {
		s.WriteString(o.section())
	}
	return s.String()
}

// ProviderTable returns a short Markdown table of which option works with
// which provider.
func ProviderTable() string { return table(false) }

// table links its rows to the sections of the page when it is on that page, and
// to the page otherwise.
func table(onPage bool) string {
	var s strings.Builder
	s.WriteString("| Option | local | OpenStack | bare metal |\n|---|---|---|---|\n")
	page := "docs/annotations.md"
	if onPage {
		page = ""
	}
	for _, o := range Table() {
		fmt.Fprintf(&s, "| [`%s`](%s#%s) |", o.Name, page, o.Name)
		for _, p := range Providers() {
			s.WriteString(" " + cell(o.On(p), onPage) + " |")
		}
		s.WriteString("\n")
	}
	return s.String()
}

func cell(support Support, withTest bool) string {
	switch support.State {
	case Supported:
		if withTest && support.Test != "" {
			return "supported: `" + support.Test + "`"
		}
		return "yes"
	case Planned:
		return "planned"
	case Unused:
	}
	return "–"
}

func (o Option) section() string {
	var s strings.Builder
	fmt.Fprintf(&s, "\n## %s\n\n%s\n\n```yaml\n%s\n```\n\n", o.Name, wrap(o.Doc, 118), o.Example)
	row := func(label, text string) { fmt.Fprintf(&s, "* %s: %s\n", label, text) }
	row("Type", o.typeText())
	row("Default", o.Default)
	row("Also known as", o.aliasMarkdown())
	if o.PerPort {
		row("For single ports", o.perPortText())
	}
	row("Live", o.liveText())
	for _, p := range Providers() {
		if note := o.On(p).Note; note != "" {
			row("With "+string(p), strings.TrimSuffix(string(o.On(p).State)+". "+note, "."))
		}
	}
	row("Since", o.Since)
	return s.String()
}

func (o Option) aliasMarkdown() string {
	var out []string
	if o.SpecField != "" {
		out = append(out, "`"+o.SpecField+"`")
	}
	for _, a := range o.Aliases {
		out = append(out, "`"+a.Key+"` ("+string(a.Dialect)+")")
	}
	if len(out) == 0 {
		return "nothing else"
	}
	return strings.Join(out, ", ")
}
