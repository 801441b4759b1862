package archtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Layer is one row of ARCHITECTURE.md's import table.
type Layer struct {
	Name string
	// Packages are folders; one that ends in "/..." stands for everything
	// below it.
	Packages []string
	// Imports are the names of the layers that its packages may import, each
	// of an earlier row.
	Imports []string
}

// The comments that enclose the table in ARCHITECTURE.md.
const (
	tableBegin = "<!-- layers:begin -->"
	tableEnd   = "<!-- layers:end -->"
)

// everyLayer in the third column stands for all earlier rows.
const everyLayer = "all above"

// ReadLayers reads the import table from the text of ARCHITECTURE.md. It fails
// when the table is not there, when a row has not three cells, when a package
// or layer stands twice, and when a row may import itself or a later one: so
// every table it returns points inwards.
func ReadLayers(markdown string) ([]Layer, error) {
	_, rest, found := strings.Cut(markdown, tableBegin)
	body, _, closed := strings.Cut(rest, tableEnd)
	if !found || !closed {
		return nil, fmt.Errorf("reading the import table: no text between %s and %s", tableBegin, tableEnd)
	}
	var layers []Layer
	rows := 0
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			continue
		}
		if rows++; rows <= 2 { // the heading and the line below it
			continue
		}
		layer, err := readRow(line, layers)
		if err != nil {
			return nil, fmt.Errorf("reading the import table: %w", err)
		}
		layers = append(layers, layer)
	}
	if len(layers) == 0 {
		return nil, errors.New("reading the import table: it has no rows")
	}
	return layers, nil
}

func readRow(line string, before []Layer) (Layer, error) {
	cells := strings.Split(strings.Trim(line, "|"), "|")
	if len(cells) != 3 {
		return Layer{}, fmt.Errorf("row %q has %d cells, not 3", line, len(cells))
	}
	layer := Layer{Name: strings.TrimSpace(cells[0]), Packages: words(cells[1]), Imports: words(cells[2])}
	var names, packages []string
	for _, b := range before {
		names = append(names, b.Name)
		packages = append(packages, b.Packages...)
	}
	if slices.Contains(names, layer.Name) {
		return Layer{}, fmt.Errorf("layer %q stands twice", layer.Name)
	}
	for _, p := range layer.Packages {
		if slices.Contains(packages, p) {
			return Layer{}, fmt.Errorf("package %q stands twice", p)
		}
		packages = append(packages, p)
	}
	if slices.Equal(layer.Imports, []string{everyLayer}) {
		layer.Imports = names
	}
	for _, name := range layer.Imports {
		if !slices.Contains(names, name) {
			return Layer{}, fmt.Errorf("layer %q may import %q, which is no row above it", layer.Name, name)
		}
	}
	return layer, nil
}

// words splits a cell at its commas; "–" is an empty cell.
func words(cell string) []string {
	var out []string
	for word := range strings.SplitSeq(cell, ",") {
		if word = strings.Trim(word, " `"); word != "" && word != "–" {
			out = append(out, word)
		}
	}
	return out
}

// CheckLayers reports every package that the table does not place, and every
// import of a package in a layer that the importer's own may not import. Tests
// may import what they need.
func CheckLayers(t Tree, layers []Layer) []Violation {
	var out []Violation
	for _, p := range t.Packages {
		from, placed := layerOf(layers, p.Dir)
		if !placed {
			out = append(out, Violation{p.Dir, "has no place in the import table of ARCHITECTURE.md; add it to a layer"})
			continue
		}
		for _, f := range p.Files {
			for _, spec := range f.Imports {
				dir, own := ownDir(importPath(spec))
				if !own {
					continue
				}
				if message := forbidden(layers, from, dir); message != "" {
					out = append(out, Violation{t.at(spec), message})
				}
			}
		}
	}
	return out
}

// CheckPlaces reports what the table places and the tree does not have.
func CheckPlaces(t Tree, layers []Layer) []Violation {
	var out []Violation
	for _, l := range layers {
		for _, place := range l.Packages {
			root, tree := strings.CutSuffix(place, "/...")
			if !slices.ContainsFunc(t.Packages, func(p Package) bool {
				return p.Dir == place || tree && strings.HasPrefix(p.Dir+"/", root+"/")
			}) {
				out = append(out, Violation{"ARCHITECTURE.md", fmt.Sprintf("layer %q has %s, which is nowhere in the tree", l.Name, place)})
			}
		}
	}
	return out
}

// forbidden says why a layer may not import a package, or "".
func forbidden(layers []Layer, from Layer, dir string) string {
	to, placed := layerOf(layers, dir)
	switch {
	case !placed:
		return fmt.Sprintf("imports %s, which has no place in the import table", dir)
	case !slices.Contains(from.Imports, to.Name):
		return fmt.Sprintf("imports %s: layer %q may not import layer %q (ARCHITECTURE.md)", dir, from.Name, to.Name)
	}
	return ""
}

// layerOf returns the layer that places a folder; the exact name wins over the
// longest "/...".
func layerOf(layers []Layer, dir string) (Layer, bool) {
	best, length := Layer{}, -1
	for _, l := range layers {
		for _, p := range l.Packages {
			if p == dir {
				return l, true
			}
			root, tree := strings.CutSuffix(p, "/...")
			if tree && len(root) > length && strings.HasPrefix(dir+"/", root+"/") {
				best, length = l, len(root)
			}
		}
	}
	return best, length >= 0
}
