package archtest

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tellers are the packages whose words the pages quote.
func tellers() []string {
	return append(speakers(), "api/annotation", "internal/cli", "cmd/fairlead")
}

// TestQuotedMessagesAreTheProgramsOwn: a message that a page quotes is made of
// the texts in the sources, so that whoever words one anew is led to the page.
func TestQuotedMessagesAreTheProgramsOwn(t *testing.T) {
	known := patterns(read(t))
	reasons := Reasons(read(t))
	quoted := 0
	for name, page := range readPages(t) {
		for _, b := range Blocks(name, page) {
			if b.Info != "console" {
				continue
			}
			for _, text := range messages(b.Text, reasons) {
				quoted++
				if strange := uncovered(text, known); len(strange) > 0 {
					t.Errorf("%s: %q is not in the sources, in: %s", b.Where, strange, text)
				}
			}
		}
	}
	if quoted < 20 {
		t.Errorf("only %d messages are quoted; the test looks in the wrong place", quoted)
	}
}

// messages returns what the lines of some output say after a reason, and each
// cause with its remedy, which may be one message that was parted.
func messages(output string, reasons map[string]string) []string {
	var out []string
	cause := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "Cause:  "); ok {
			cause = strings.TrimSuffix(text, ".")
			continue
		}
		if text, ok := strings.CutPrefix(line, "Remedy: "); ok {
			out = append(out, cause+"; "+text)
			continue
		}
		before, text, found := strings.Cut(line, ": ")
		fields := strings.Fields(before)
		if found && len(fields) > 0 && reasons[fields[len(fields)-1]] != "" {
			out = append(out, text)
		}
	}
	return out
}

// patterns are the texts of the sources, each as an expression in which what
// is filled in may be anything.
func patterns(t Tree) []*regexp.Regexp {
	verb := regexp.MustCompile(`%[-+# 0-9.\[\]]*[a-zA-Z]`)
	letters := regexp.MustCompile(`[a-zA-Z]`)
	var out []*regexp.Regexp
	for _, p := range t.Packages {
		if !slices.Contains(tellers(), p.Dir) {
			continue
		}
		for _, f := range p.Files {
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok {
					return true
				}
				text := strings.Trim(literal(lit), " .\n")
				if len(letters.FindAllString(verb.ReplaceAllString(text, ""), -1)) < 8 {
					return true
				}
				expression := ""
				for i, part := range verb.Split(text, -1) {
					if i > 0 {
						expression += `.+?`
					}
					// Sentences begin with a capital where they are printed.
					expression += `(?i:` + regexp.QuoteMeta(part) + `)`
				}
				out = append(out, regexp.MustCompile(expression))
				return true
			})
		}
	}
	return out
}

// uncovered returns the runs of four words and more of a text that no pattern
// accounts for.
func uncovered(text string, known []*regexp.Regexp) []string {
	covered := make([]bool, len(text))
	for _, p := range known {
		for _, at := range p.FindAllStringIndex(text, -1) {
			for i := at[0]; i < at[1]; i++ {
				covered[i] = true
			}
		}
	}
	rest := []byte(text)
	for i := range rest {
		if covered[i] {
			rest[i] = '\n'
		}
	}
	return regexp.MustCompile(`[A-Za-z]+(?: [A-Za-z]+){3,}`).FindAllString(string(rest), -1)
}

func TestRewordedMessagesAreFound(t *testing.T) {
	files := sound()
	files["internal/status/x.go"] = "// Package status is planted.\npackage status\n\nconst a, b = \"port %d of %s is in use by another program; stop it\", \"The other ports are served.\"\n"
	known := patterns(treeOf(t, files))
	cases := map[string]struct {
		reason string
		text   string
		want   []string
	}{
		"as it is":  {"both sentences are in the sources", "port 80 of ::1 is in use by another program; stop it. The other ports are served.", nil},
		"reworded":  {"the first one was worded anew since", "port 80 of ::1 is taken by some other program already. The other ports are served.", []string{"is taken by some other program already"}},
		"one word":  {"a name is no sentence", "shop/web. The other ports are served.", nil},
		"a capital": {"sentences that are parted begin with one", "Port 80 of ::1 is in use by another program; stop it", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, uncovered(tc.text, known)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
