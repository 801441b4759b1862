package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// speakers are the packages that say reasons to users: in conditions, in the
// errors of ports, in events.
func speakers() []string {
	return []string{"internal/status", "internal/ipam", "internal/translate", "internal/proxy", "internal/provider/local", "internal/controller"}
}

// noReasons are CamelCase words of these packages that are no reasons.
func noReasons() []string {
	return []string{
		"LoadBalancerPortsError",         // a condition's type
		"ToBeDeletedByClusterAutoscaler", // a taint's key
	}
}

// Reasons returns where each reason that a user can meet is named in the
// sources. A reason is a text in CamelCase of two words at least, or the value
// of a constant whose name begins with "Reason"; every such text of the packages
// that speak to users counts, so that no new one is overlooked.
func Reasons(t Tree) map[string]string {
	camel := regexp.MustCompile(`^([A-Z][a-z]+){2,}$`)
	out := map[string]string{}
	for _, p := range t.Packages {
		if !slices.Contains(speakers(), p.Dir) {
			continue
		}
		for _, f := range p.Files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if text := literal(n); camel.MatchString(text) && !slices.Contains(noReasons(), text) {
						out[text] = t.at(n)
					}
				case *ast.ValueSpec:
					for i, name := range n.Names {
						if strings.HasPrefix(name.Name, "Reason") && i < len(n.Values) {
							if text := literal(n.Values[i]); text != "" {
								out[text] = t.at(n)
							}
						}
					}
				}
				return true
			})
		}
	}
	return out
}

// literal returns the text of a string literal, or "".
func literal(n ast.Node) string {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}

// CheckReasons compares the reasons of the sources with the rows of a page's
// tables whose first column is headed "Reason".
func CheckReasons(reasons map[string]string, pageName, page string) []Violation {
	explained := map[string]bool{}
	var out []Violation
	inTable := false
	number := 0
	for line := range strings.Lines(page) {
		number++
		first, row := firstCell(line)
		switch {
		case !row:
			inTable = false
		case first == "Reason":
			inTable = true
		case inTable && strings.HasPrefix(first, "`"):
			reason := strings.Trim(first, "`")
			explained[reason] = true
			if _, exists := reasons[reason]; !exists {
				out = append(out, Violation{fmt.Sprintf("%s:%d", pageName, number), fmt.Sprintf("explains %s, which nothing says", reason)})
			}
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		if !explained[reason] {
			out = append(out, Violation{reasons[reason], fmt.Sprintf("says %s, which %s does not explain; add it to a table there", reason, pageName)})
		}
	}
	return out
}

func firstCell(line string) (cell string, row bool) {
	rest, row := strings.CutPrefix(strings.TrimSpace(line), "|")
	cell, _, _ = strings.Cut(rest, "|")
	return strings.TrimSpace(cell), row
}

// Block is one fenced block of a Markdown file.
type Block struct {
	// Where is "file:line" of its opening fence.
	Where string
	// Info is what stands behind the fence, such as "yaml" or "yaml fragment".
	Info string
	Text string
}

// Blocks returns the fenced blocks of a Markdown file in their order. A block
// that is not closed reaches to the end.
func Blocks(name, markdown string) []Block {
	const fence = "```"
	var out []Block
	open := false
	number := 0
	for line := range strings.Lines(markdown) {
		number++
		info, fenced := strings.CutPrefix(strings.TrimSpace(line), fence)
		switch {
		case fenced && open:
			open = false
		case fenced:
			open = true
			out = append(out, Block{Where: fmt.Sprintf("%s:%d", name, number), Info: strings.TrimSpace(info)})
		case open:
			out[len(out)-1].Text += line
		}
	}
	return out
}

// Pages returns the Markdown files for users: those at the root and in docs,
// sorted by name.
func Pages(fsys fs.FS) (map[string]string, error) {
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		names, err := fs.Glob(fsys, pattern)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", pattern, err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(fsys, name)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			pages[name] = string(text)
		}
	}
	return pages, nil
}

// CheckLinks reports every relative link of a page whose file or heading is not
// there. Links out of the repository are not followed.
func CheckLinks(fsys fs.FS, pages map[string]string) []Violation {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	var out []Violation
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		number := 0
		for line := range strings.Lines(pages[name]) {
			number++
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if message := broken(fsys, pages, name, m[1]); message != "" {
					out = append(out, Violation{fmt.Sprintf("%s:%d", name, number), message})
				}
			}
		}
	}
	return out
}

// broken says what is wrong with a link on a page, or "".
func broken(fsys fs.FS, pages map[string]string, name, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := name
	if file != "" {
		to = path.Join(path.Dir(name), file)
	}
	if _, err := fs.Stat(fsys, to); err != nil {
		return fmt.Sprintf("links to %s, which is not there", target)
	}
	if page, known := pages[to]; known && anchor != "" && !slices.Contains(anchors(page), anchor) {
		return fmt.Sprintf("links to %s, and %s has no such heading", target, to)
	}
	return ""
}

// anchors are the fragments by which the headings of a page are linked to
// (GitHub's rule: lower case, blanks to hyphens, other punctuation dropped).
func anchors(page string) []string {
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	var out []string
	fenced := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		title, heading := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if fenced || !heading || !strings.HasPrefix(line, "#") {
			continue
		}
		text := dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
		out = append(out, strings.ReplaceAll(text, " ", "-"))
	}
	return out
}
