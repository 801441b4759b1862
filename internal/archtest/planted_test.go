package archtest

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// table is an import table in the form of ARCHITECTURE.md.
const table = `
Text before it | with a bar.
<!-- layers:begin -->
| Layer | Packages | May import |
|---|---|---|
| values | ` + "`internal/model`, `internal/other`" + ` | – |
| decisions | ` + "`internal/plan`" + ` | values |
| programs | ` + "`cmd/...`" + ` | all above |
<!-- layers:end -->
`

// The planted trees begin from this one, which breaks no rule.
func sound() map[string]string {
	return map[string]string{
		"internal/model/model.go":      "// Package model is planted.\npackage model\n\nimport \"time\"\n\ntype Span = time.Duration\n",
		"internal/plan/plan.go":        "// Package plan is planted.\npackage plan\n\nimport _ \"" + Module + "/internal/model\"\n",
		"internal/plan/plan_test.go":   "package plan\n\nimport (\n\t_ \"os\"\n\t_ \"" + Module + "/cmd/x\"\n)\n",
		"cmd/x/main.go":                "// Command x is planted.\npackage main\n\nimport (\n\t_ \"os\"\n\t_ \"" + Module + "/internal/plan\"\n)\n",
		"nested/go.mod":                "module nested\n",
		"nested/broken.go":             "this is not Go",
		"internal/plan/testdata/no.go": "neither is this",
		".hidden/no.go":                "nor this",
	}
}

func treeOf(t *testing.T, files map[string]string) Tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func texts(violations []Violation) []string {
	var out []string
	for _, v := range violations {
		out = append(out, v.String())
	}
	return out
}

func TestPlantedViolationsAreReported(t *testing.T) {
	cases := map[string]struct {
		reason string
		file   string
		text   string
		want   []string
	}{
		"nothing planted": {
			reason: "the tree that the others begin from is sound; nested modules, testdata, tests and hidden folders are left alone",
		},
		"outwards": {
			reason: "values know nothing of those who decide over them",
			file:   "internal/model/x.go",
			text:   "package model\n\nimport _ \"" + Module + "/internal/plan\"\n",
			want:   []string{`internal/model/x.go:3: imports internal/plan: layer "values" may not import layer "decisions" (ARCHITECTURE.md)`},
		},
		"sideways": {
			reason: "packages of one layer do not know each other",
			file:   "internal/other/other.go",
			text:   "// Package other is planted.\npackage other\n\nimport _ \"" + Module + "/internal/model\"\n",
			want:   []string{`internal/other/other.go:4: imports internal/model: layer "values" may not import layer "values" (ARCHITECTURE.md)`},
		},
		"nobody placed it": {
			reason: "a new package has to be thought about",
			file:   "internal/new/new.go",
			text:   "// Package new is planted.\npackage new\n",
			want:   []string{"internal/new: has no place in the import table of ARCHITECTURE.md; add it to a layer"},
		},
		"nobody placed the tests": {
			reason: "a folder with nothing but tests is a package too",
			file:   "internal/new/new_test.go",
			text:   "package new\n",
			want:   []string{"internal/new: has no place in the import table of ARCHITECTURE.md; add it to a layer"},
		},
		"imports what nobody placed": {
			reason: "the importer is told as well",
			file:   "internal/plan/x.go",
			text:   "package plan\n\nimport _ \"" + Module + "/internal/gone\"\n",
			want:   []string{"internal/plan/x.go:3: imports internal/gone, which has no place in the import table"},
		},
		"behind a build constraint": {
			reason: "files of other systems are checked as well",
			file:   "internal/model/x_windows.go",
			text:   "//go:build windows\n\npackage model\n\nimport _ \"os\"\n",
			want:   []string{"internal/model/x_windows.go:5: imports os, which is not on the list of this pure package"},
		},
		"logger": {
			reason: "what decides does not log: the same input would leave traces in a dry run",
			file:   "internal/plan/x.go",
			text:   "package plan\n\nimport _ \"log/slog\"\n",
			want:   []string{"internal/plan/x.go:3: imports log/slog, which is not on the list of this pure package"},
		},
		"prefix of an allowed path": {
			reason: "net/netip does not let net in",
			file:   "internal/plan/x.go",
			text:   "package plan\n\nimport _ \"net\"\n",
			want:   []string{"internal/plan/x.go:3: imports net, which is not on the list of this pure package"},
		},
		"random numbers": {
			reason: "a decision is the same every time",
			file:   "internal/plan/x.go",
			text:   "package plan\n\nimport _ \"math/rand/v2\"\n",
			want:   []string{"internal/plan/x.go:3: imports math/rand/v2, which is not on the list of this pure package"},
		},
		"clock": {
			reason: "time comes in as a value",
			file:   "internal/plan/x.go",
			text:   "package plan\n\nimport \"time\"\n\nfunc now() time.Time { return time.Now() }\n",
			want:   []string{"internal/plan/x.go:5: uses time.Now; pure code gets the time as a value"},
		},
		"clock by another name": {
			reason: "an import's name hides nothing",
			file:   "internal/plan/x.go",
			text:   "package plan\n\nimport clock \"time\"\n\nfunc age(t clock.Time) clock.Duration { return clock.Since(t) }\n",
			want:   []string{"internal/plan/x.go:5: uses time.Since; pure code gets the time as a value"},
		},
		"clock as a value": {
			reason: "a function that is not called here is called elsewhere",
			file:   "internal/plan/x.go",
			text:   "package plan\n\nimport \"time\"\n\nfunc clock() func() time.Time { return time.Now }\n",
			want:   []string{"internal/plan/x.go:5: uses time.Now; pure code gets the time as a value"},
		},
		"dot": {
			reason: "a dot would hide the clock",
			file:   "internal/plan/x.go",
			text:   "package plan\n\nimport . \"time\"\n\nfunc now() Time { return Now() }\n",
			want:   []string{"internal/plan/x.go:3: imports time by a dot"},
		},
		"no package comment": {
			reason: "a package says what it does",
			file:   "cmd/y/main.go",
			text:   "package main\n",
			want:   []string{"cmd/y: has no package comment; say in one paragraph what it does and what it never does"},
		},
		"two package comments": {
			reason: "go doc would join them in the order of file names",
			file:   "internal/plan/x.go",
			text:   "// Package plan is planted again.\npackage plan\n",
			want:   []string{"internal/plan/x.go:2: is a second package comment; keep one"},
		},
		"comment that begins with the command": {
			reason: "a sentence about the program is a command's comment as well",
			file:   "cmd/y/main.go",
			text:   "// Y is planted.\npackage main\n",
		},
		"comment of another package": {
			reason: "a copied comment is worse than none",
			file:   "cmd/y/main.go",
			text:   "// Package x is planted.\npackage main\n",
			want:   []string{`cmd/y/main.go:2: the package comment does not begin with "Command "`},
		},
	}
	layers, err := ReadLayers(table)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			files := sound()
			if tc.file != "" {
				files[tc.file] = tc.text
			}
			tree := treeOf(t, files)
			got := texts(CheckLayers(tree, layers))
			got = append(got, texts(CheckPure(tree, Pure()))...)
			got = append(got, texts(CheckDocs(tree))...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestBrokenFileIsAnError(t *testing.T) {
	_, err := Read(fstest.MapFS{"internal/plan/x.go": {Data: []byte("not Go")}})
	if err == nil || !strings.Contains(err.Error(), "parsing internal/plan/x.go") {
		t.Errorf("got error %v, want one that names the file", err)
	}
}

func TestPlacesWithoutPackagesAreReported(t *testing.T) {
	layers, err := ReadLayers(table)
	if err != nil {
		t.Fatal(err)
	}
	files := sound()
	delete(files, "cmd/x/main.go")
	want := []string{
		`ARCHITECTURE.md: layer "values" has internal/other, which is nowhere in the tree`,
		`ARCHITECTURE.md: layer "programs" has cmd/..., which is nowhere in the tree`,
	}
	if diff := cmp.Diff(want, texts(CheckPlaces(treeOf(t, files), layers))); diff != "" {
		t.Errorf("a table that drifts from the tree (-want +got):\n%s", diff)
	}
}

func TestReadLayers(t *testing.T) {
	row := "| a | `internal/a` | – |\n"
	enclose := func(rows string) string {
		return tableBegin + "\n| Layer | Packages | May import |\n|---|---|---|\n" + rows + tableEnd
	}
	cases := map[string]struct {
		reason string
		text   string
		err    string
	}{
		"sound":         {"one row is a table", enclose(row), ""},
		"no table":      {"an absent table must not pass for an empty one", "# Architecture\n", "no text between"},
		"no end":        {"nor a table without an end", tableBegin + "\n" + row, "no text between"},
		"no rows":       {"nor one without rows", enclose(""), "it has no rows"},
		"outwards":      {"a row may not import a later one", enclose("| a | `internal/a` | b |\n| b | `internal/b` | – |\n"), `layer "a" may import "b", which is no row above it`},
		"itself":        {"nor itself", enclose("| a | `internal/a` | a |\n"), `which is no row above it`},
		"package twice": {"a package has one place", enclose(row + "| b | `internal/a` | – |\n"), `package "internal/a" stands twice`},
		"layer twice":   {"a name means one layer", enclose(row + "| a | `internal/b` | – |\n"), `layer "a" stands twice`},
		"two cells":     {"a broken row is not skipped", enclose("| a | `internal/a` |\n"), "has 2 cells, not 3"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ReadLayers(tc.text)
			switch {
			case tc.err == "" && err != nil:
				t.Errorf("%s: %v", tc.reason, err)
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("%s: got error %v, want one with %q", tc.reason, err, tc.err)
			}
		})
	}
}

func TestLongestPlaceWins(t *testing.T) {
	layers := []Layer{
		{Name: "outer", Packages: []string{"test/..."}},
		{Name: "inner", Packages: []string{"test/deep/..."}},
		{Name: "exact", Packages: []string{"test/deep/one"}},
	}
	for dir, want := range map[string]string{"test": "outer", "test/x": "outer", "test/deep/two": "inner", "test/deep/one": "exact"} {
		if got, ok := layerOf(layers, dir); !ok || got.Name != want {
			t.Errorf("%s is in layer %q, want %q", dir, got.Name, want)
		}
	}
	if got, ok := layerOf(layers, "testing"); ok {
		t.Errorf("testing is in layer %q, want none: it only begins with the same letters", got.Name)
	}
}

func TestCheckModule(t *testing.T) {
	many := strings.Repeat("\texample.test/m v1.0.0\n", MaxRequirements)
	cases := map[string]struct {
		reason string
		goMod  string
		want   []string
	}{
		"at the limit": {
			reason: "indirect requirements and comments do not count",
			goMod:  "module m\n\nrequire (\n" + many + "\texample.test/n v1.0.0 // indirect\n\t// a word\n)\n",
		},
		"one too many": {
			reason: "a line of its own counts like one in a block",
			goMod:  "module m\n\nrequire (\n" + many + ")\n\nrequire example.test/n v1.0.0\n",
			want:   []string{"go.mod: requires 16 modules directly, the limit is 15"},
		},
		"replace": {
			reason: "a replacement works here and for nobody who imports the module",
			goMod:  "module m\n\nreplace example.test/m => ../m\n",
			want:   []string{"go.mod:3: has a replace directive; require the module as it is"},
		},
		"replace block": {
			reason: "in a block as well, once a line",
			goMod:  "module m\n\nreplace (\n\ta => b v1.0.0\n\tc => d v1.0.0\n)\n",
			want: []string{
				"go.mod:4: has a replace directive; require the module as it is",
				"go.mod:5: has a replace directive; require the module as it is",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, texts(CheckModule(tc.goMod))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCheckText(t *testing.T) {
	cases := map[string]struct {
		reason string
		file   string
		text   string
		want   []string
	}{
		"plain":         {"ordinary words pass: network/working, rooted, issues, shared/state", "a.md", "network/working rooted issues shared/state\n", nil},
		"path":          {"the path is the author's, not the reader's", "a.md", "\nsee /wor" + "k/main\n", []string{`a.md:2: names a path of somebody's machine ("/wor` + `k/")`}},
		"home":          {"so is a home folder", "a.go", "// /roo" + "t/.cache\n", []string{`a.go:1: names a path of somebody's machine ("/roo` + `t/")`}},
		"notes":         {"the reader has no such file", "a.md", "share" + "d/design.md\n", []string{`a.md:1: names a file that is not in the project ("share` + `d/design")`}},
		"ticket":        {"a number without a project is no reference", "a.go", "// Issu" + "e 12\n", []string{`a.go:1: names a ticket without its project; write project#number or say what it is about ("Issu` + `e 1")`}},
		"to be done":    {"what is committed is done", "x/Makefile", "# TO" + "DO: more\n", []string{`x/Makefile:1: leaves work undone ("TO` + `DO")`}},
		"binary":        {"a binary file has no lines", "bench.prof", "\x00TO" + "DO", nil},
		"build results": {"what make produces is not the project's text", "bin/x", "TO" + "DO\n", nil},
		"nested module": {"a nested module is the project's text too", "tools/go.mod", "// TO" + "DO\n", []string{`tools/go.mod:1: leaves work undone ("TO` + `DO")`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := CheckText(fstest.MapFS{tc.file: {Data: []byte(tc.text)}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, texts(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
