// Package archtest checks the structure of the source tree itself: that every
// package has its place in ARCHITECTURE.md's table and imports only inwards,
// that what is called pure is pure, that every package says what it does, that
// the module stays small, and that the pages for users name what there is. It
// parses the files, so that a cached answer of the go command cannot hide a
// violation. It changes nothing, runs no program and knows no rule that is not
// written in ARCHITECTURE.md or in this package.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of the root module.
const Module = "github.com/fairlead-lb/fairlead"

// Tree is the parsed source of the root module, without nested modules,
// testdata and what the go command ignores.
type Tree struct {
	// Packages are sorted by folder.
	Packages []Package
	fset     *token.FileSet
}

// Package is one folder with Go files.
type Package struct {
	// Dir is its folder, relative to the module's root, such as "internal/model".
	Dir string
	// Files are its files without tests, whatever their build constraints,
	// sorted by name. A folder with nothing but tests has none.
	Files []*ast.File
}

// Violation is one broken rule.
type Violation struct {
	// Where is a package's folder or a file, with a line where there is one.
	Where string
	// Message is one sentence: what is wrong, and what to do.
	Message string
}

// String returns "where: message".
func (v Violation) String() string { return v.Where + ": " + v.Message }

// Read parses the Go files of the module whose root is fsys. It fails on the
// first file that cannot be read or parsed.
func Read(fsys fs.FS) (Tree, error) {
	t := Tree{fset: token.NewFileSet()}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("walking %s: %w", name, err)
		case !d.IsDir():
			return nil
		case ignored(fsys, name):
			return fs.SkipDir
		}
		return t.readPackage(fsys, name)
	})
	return t, err
}

// ignored tells whether a folder is no part of the module: the go command
// ignores it, or it is a module of its own.
func ignored(fsys fs.FS, dir string) bool {
	if dir == "." {
		return false
	}
	base := path.Base(dir)
	if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

func (t *Tree) readPackage(fsys fs.FS, dir string) error {
	names, err := fs.Glob(fsys, path.Join(dir, "*.go"))
	if err != nil {
		return fmt.Errorf("listing %s: %w", dir, err)
	}
	if len(names) == 0 {
		return nil
	}
	p := Package{Dir: dir}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		file, err := parser.ParseFile(t.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parsing %s: %w", name, err)
		}
		p.Files = append(p.Files, file)
	}
	t.Packages = append(t.Packages, p)
	return nil
}

// at returns "file:line" of a node.
func (t Tree) at(n ast.Node) string {
	pos := t.fset.Position(n.Pos())
	return pos.Filename + ":" + strconv.Itoa(pos.Line)
}

// importPath returns the path that an import names.
func importPath(spec *ast.ImportSpec) string {
	text, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return text
}

// ownDir returns the folder of an import of this module, and whether it is one.
func ownDir(importPath string) (string, bool) {
	if importPath == Module {
		return ".", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}

// CheckDocs reports every package whose comment is missing, stands in several
// files or does not begin as Go's convention asks (go.dev/doc/comment).
func CheckDocs(t Tree) []Violation {
	var out []Violation
	for _, p := range t.Packages {
		if len(p.Files) == 0 {
			continue
		}
		docs := slices.DeleteFunc(slices.Clone(p.Files), func(f *ast.File) bool { return f.Doc == nil })
		switch {
		case len(docs) == 0:
			out = append(out, Violation{p.Dir, "has no package comment; say in one paragraph what it does and what it never does"})
		case len(docs) > 1:
			out = append(out, Violation{t.at(docs[1]), "is a second package comment; keep one"})
		case !strings.HasPrefix(docs[0].Doc.Text(), docStart(p.Dir, docs[0])):
			out = append(out, Violation{t.at(docs[0]), fmt.Sprintf("the package comment does not begin with %q", docStart(p.Dir, docs[0]))})
		}
	}
	return out
}

// docStart is how a package's comment begins: a command's may begin with the
// command's name, as a sentence does.
func docStart(dir string, f *ast.File) string {
	if f.Name.Name != "main" {
		return "Package " + f.Name.Name + " "
	}
	base := path.Base(dir)
	if name := strings.ToUpper(base[:1]) + base[1:] + " "; strings.HasPrefix(f.Doc.Text(), name) {
		return name
	}
	return "Command "
}
