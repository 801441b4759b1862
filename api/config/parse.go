package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead-lb/fairlead/api/annotation"
)

// sizeLimit is the greatest size of a file, in bytes.
const sizeLimit = 1 << 20

// Problem is one thing that is wrong with a file.
type Problem struct {
	// Line is where, counted from 1; 0 when it is nowhere in particular.
	Line int
	// Path leads to the field, such as "local.pools[0]"; empty for the whole file.
	Path string
	// Message says what is wrong and what is allowed.
	Message string
}

// String returns "line 7: local.pools[0]: …".
func (p Problem) String() string {
	text := p.Message
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Line > 0 {
		text = "line " + strconv.Itoa(p.Line) + ": " + text
	}
	return text
}

// InvalidError is returned for a file that is no configuration.
type InvalidError struct {
	// Problems are all there are, by line.
	Problems []Problem
}

// Error returns one problem a line.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Parse reads a configuration file: what it does not set is as in New. The
// error is an *InvalidError with every problem of the file, or what reading
// it returned; the configuration is then the zero value.
func Parse(r io.Reader) (Config, error) {
	text, err := io.ReadAll(io.LimitReader(r, sizeLimit+1))
	if err != nil {
		return Config{}, fmt.Errorf("reading configuration: %w", err)
	}
	c, problems := parse(text)
	if len(problems) > 0 {
		return Config{}, &InvalidError{Problems: problems}
	}
	return c, nil
}

// Check returns every problem of a configuration file; none: Parse accepts it.
func Check(r io.Reader) []Problem {
	_, err := Parse(r)
	var invalid *InvalidError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return invalid.Problems
	}
	return []Problem{{Message: err.Error()}}
}

func parse(text []byte) (Config, []Problem) {
	root, problem := document(text)
	if problem != "" {
		return Config{}, []Problem{{Message: problem}}
	}
	p := parser{config: New(), fields: Fields(), lines: map[string]int{}}
	p.mapping(root, "")
	p.header()
	if len(p.problems) == 0 {
		for _, x := range together(p.config) {
			x.Line = p.lines[x.Path]
			p.problems = append(p.problems, x)
		}
	}
	slices.SortStableFunc(p.problems, func(a, b Problem) int { return a.Line - b.Line })
	return p.config, p.problems
}

// document returns the one mapping that a file consists of.
func document(text []byte) (*yaml.Node, string) {
	if len(text) > sizeLimit {
		return nil, fmt.Sprintf("the file is larger than %d bytes", sizeLimit)
	}
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	var doc, more yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, "the file is empty: it has to begin with apiVersion: " + APIVersion + " and kind: " + Kind
	} else if err != nil {
		return nil, "this is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, "the file holds more than one document"
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, "the file is not a mapping of fields to values"
	}
	return doc.Content[0], ""
}

type parser struct {
	config   Config
	fields   []Field
	version  string
	kind     string
	lines    map[string]int
	problems []Problem
}

func (p *parser) add(line int, path, format string, args ...any) {
	p.problems = append(p.problems, Problem{Line: line, Path: path, Message: fmt.Sprintf(format, args...)})
}

// header checks that the file says what it is.
func (p *parser) header() {
	if p.version != APIVersion {
		p.add(p.lines["apiVersion"], "apiVersion", "has to be %q, not %q", APIVersion, p.version)
	}
	if p.kind != Kind {
		p.add(p.lines["kind"], "kind", "has to be %q, not %q", Kind, p.kind)
	}
}

func (p *parser) mapping(n *yaml.Node, prefix string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			p.add(key.Line, strings.TrimSuffix(prefix, "."), "has a key that is not text")
			continue
		}
		path := prefix + key.Value
		if _, twice := p.lines[path]; twice {
			p.add(key.Line, path, "is set twice")
			continue
		}
		p.lines[path] = key.Line
		if value.Kind == yaml.AliasNode || value.Anchor != "" {
			p.add(key.Line, path, "uses an anchor: write the value itself")
			continue
		}
		p.entry(path, value)
	}
}

func (p *parser) entry(path string, value *yaml.Node) {
	if path == "apiVersion" || path == "kind" {
		p.headerField(path, value)
		return
	}
	if i := slices.IndexFunc(p.fields, func(f Field) bool { return f.Path == path }); i >= 0 {
		p.set(p.fields[i], value)
		return
	}
	if !slices.Contains(sections(), path) {
		p.unknown(path)
		return
	}
	switch {
	case value.Kind == yaml.MappingNode:
		p.mapping(value, path+".")
	case value.Tag == "!!null":
	default:
		p.add(p.lines[path], path, "has to be a mapping of fields to values")
	}
}

func (p *parser) headerField(path string, value *yaml.Node) {
	if value.Kind != yaml.ScalarNode {
		return // header says what it has to be
	}
	if path == "kind" {
		p.kind = value.Value
	} else {
		p.version = value.Value
	}
}

func (p *parser) unknown(path string) {
	known := append([]string{"apiVersion", "kind"}, sections()...)
	for _, f := range p.fields {
		known = append(known, f.Path)
	}
	if near := annotation.Nearest(path, known); near != "" {
		p.add(p.lines[path], path, "is unknown; did you mean %s?", near)
		return
	}
	// The right field in the wrong section is a common mistake.
	last := path[strings.LastIndexByte(path, '.')+1:]
	for _, k := range known {
		if strings.EqualFold(k[strings.LastIndexByte(k, '.')+1:], last) {
			p.add(p.lines[path], path, "is unknown; did you mean %s?", k)
			return
		}
	}
	p.add(p.lines[path], path, "is unknown")
}

// sections returns the paths that hold fields, in their order.
func sections() []string {
	var out []string
	for _, f := range Fields() {
		if i := strings.LastIndexByte(f.Path, '.'); i >= 0 && !slices.Contains(out, f.Path[:i]) {
			out = append(out, f.Path[:i])
		}
	}
	return out
}

// set writes a value into the configuration when it is one.
func (p *parser) set(f Field, n *yaml.Node) {
	if n.Tag == "!!null" {
		p.add(p.lines[f.Path], f.Path, "has no value: leave the line out for the default")
		return
	}
	if at, ok := f.at(&p.config).(*[]string); ok {
		p.setList(f, n, at)
		return
	}
	if n.Kind != yaml.ScalarNode {
		p.add(n.Line, f.Path, "has to be one value, %s", article(f.Type))
		return
	}
	if problem := f.problem(n.Value); problem != "" {
		p.add(n.Line, f.Path, "%s", problem)
		return
	}
	switch at := f.at(&p.config).(type) {
	case *string:
		*at = n.Value
	case *Mode:
		*at = Mode(n.Value)
	case *int:
		*at, _ = strconv.Atoi(n.Value) // problem has parsed it
	case *bool:
		*at = n.Value == "true"
	case *time.Duration:
		*at, _ = time.ParseDuration(n.Value)
	}
}

func (p *parser) setList(f Field, n *yaml.Node, at *[]string) {
	if n.Kind != yaml.SequenceNode {
		p.add(n.Line, f.Path, "has to be a list, such as [%s]", strings.Join(*at, ", "))
		return
	}
	var items []string
	for i, item := range n.Content {
		path := f.Path + "[" + strconv.Itoa(i) + "]"
		problem := "has to be text"
		if item.Kind == yaml.ScalarNode && item.Anchor == "" {
			problem = f.problem(item.Value)
		}
		switch {
		case problem != "":
			p.add(item.Line, path, "%s", problem)
		case slices.Contains(items, item.Value):
			p.add(item.Line, path, "%q is in the list twice", item.Value)
		default:
			items = append(items, item.Value)
		}
	}
	*at = items
}

// problem says what is wrong with one value of a field, or "".
func (f Field) problem(v string) string {
	var err error
	switch f.Type {
	case Integer:
		_, err = strconv.Atoi(v)
	case Duration:
		_, err = time.ParseDuration(v)
	case Boolean:
		if v != "true" && v != "false" {
			err = strconv.ErrSyntax
		}
	case Text, Word, List:
	}
	if err != nil {
		return fmt.Sprintf("%q is not %s", v, article(f.Type))
	}
	if len(f.words) > 0 && !slices.Contains(f.words, v) {
		if near := annotation.Nearest(v, f.words); near != "" {
			return fmt.Sprintf("%q is not known; did you mean %q?", v, near)
		}
		return fmt.Sprintf("%q is not known: use %s", v, f.values())
	}
	if f.check != nil {
		return f.check(v)
	}
	return ""
}

func article(t Type) string {
	switch t {
	case Integer:
		return "an integer"
	case Duration:
		return "a duration, such as 30s or 10m"
	case Boolean:
		return "true or false"
	case List:
		return "a list"
	case Text, Word:
	}
	return "a text"
}

// values says what a field takes.
func (f Field) values() string {
	if len(f.words) == 0 {
		return f.Allowed
	}
	words := slices.Clone(f.words)
	for i, w := range words {
		if w == "" {
			words[i] = `""`
		}
	}
	return strings.Join(words, ", ")
}
