package archtest

import (
	"fmt"
	"go/ast"
	"slices"
)

// values returns the standard packages that hold no clock, client, logger,
// network, file or random number.
func values() []string {
	return []string{
		"cmp", "crypto/sha256", "encoding/hex", "encoding/json", "errors", "fmt", "hash/fnv", "iter", "maps", "math",
		"math/bits", "net/netip", "slices", "strconv", "strings", "time", "unicode", "unicode/utf8",
	}
}

// Pure returns the packages that decide, by folder, each with what it may
// import from outside this module. What it may import from inside is said by
// the import table.
func Pure() map[string][]string {
	kubernetes := append(values(),
		"k8s.io/api/core/v1",
		"k8s.io/api/discovery/v1",
		"k8s.io/apimachinery/pkg/labels",
		"k8s.io/apimachinery/pkg/types",
		"k8s.io/apimachinery/pkg/util/intstr",
	)
	return map[string][]string{
		"api/annotation":     values(),
		"internal/elect":     values(),
		"internal/ipam":      values(),
		"internal/model":     values(),
		"internal/plan":      values(),
		"internal/status":    values(),
		"internal/translate": kubernetes,
	}
}

// clock returns the functions of package time that read or wait for the clock.
func clock() []string {
	return []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
}

// CheckPure reports what a pure package imports beyond its list, every use of
// the clock in it, and every import by "." (which would hide the rest).
func CheckPure(t Tree, pure map[string][]string) []Violation {
	var out []Violation
	for _, p := range t.Packages {
		allowed, ok := pure[p.Dir]
		if !ok {
			continue
		}
		for _, f := range p.Files {
			out = append(out, t.impureImports(f, allowed)...)
			out = append(out, t.clockUses(f)...)
		}
	}
	return out
}

func (t Tree) impureImports(f *ast.File, allowed []string) []Violation {
	var out []Violation
	for _, spec := range f.Imports {
		name := importPath(spec)
		if spec.Name != nil && spec.Name.Name == "." {
			out = append(out, Violation{t.at(spec), fmt.Sprintf("imports %s by a dot", name)})
		}
		if _, own := ownDir(name); !own && !slices.Contains(allowed, name) {
			out = append(out, Violation{t.at(spec), fmt.Sprintf("imports %s, which is not on the list of this pure package", name)})
		}
	}
	return out
}

func (t Tree) clockUses(f *ast.File) []Violation {
	name, imported := localName(f, "time")
	if !imported {
		return nil
	}
	var out []Violation
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if ok && x.Name == name && slices.Contains(clock(), sel.Sel.Name) {
			out = append(out, Violation{t.at(sel), fmt.Sprintf("uses time.%s; pure code gets the time as a value", sel.Sel.Name)})
		}
		return true
	})
	return out
}

// localName returns the name by which a file calls a package of the standard
// library with a one-word path.
func localName(f *ast.File, path string) (string, bool) {
	for _, spec := range f.Imports {
		if importPath(spec) != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name, true
		}
		return path, true
	}
	return "", false
}
