package archtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
)

// MaxRequirements is how many modules the root module may require directly.
const MaxRequirements = 15

// CheckModule reports a go.mod with a replace directive, which would make the
// module build differently for those who import it, and one with more direct
// requirements than MaxRequirements.
func CheckModule(goMod string) []Violation {
	var out []Violation
	direct := 0
	block := ""
	number := 0
	for line := range strings.Lines(goMod) {
		number++
		code, comment, _ := strings.Cut(line, "//")
		fields := strings.Fields(code)
		verb := block
		switch {
		case len(fields) == 0:
			continue
		case fields[0] == ")":
			block = ""
			continue
		case block == "" && len(fields) == 2 && fields[1] == "(":
			block = fields[0]
			continue
		case block == "":
			verb = fields[0]
		}
		switch {
		case verb == "replace":
			out = append(out, Violation{"go.mod:" + strconv.Itoa(number), "has a replace directive; require the module as it is"})
		case verb == "require" && strings.TrimSpace(comment) != "indirect":
			direct++
		}
	}
	if direct > MaxRequirements {
		out = append(out, Violation{"go.mod", fmt.Sprintf("requires %d modules directly, the limit is %d", direct, MaxRequirements)})
	}
	return out
}

// ban is a text that no file of the project may hold.
type ban struct {
	pattern *regexp.Regexp
	why     string
}

// bans are written so that this file does not hold what it forbids.
func bans() []ban {
	return []ban{
		{regexp.MustCompile(`(^|[^\w./-])/(wor` + `k|roo` + `t)(/|\b)`), "names a path of somebody's machine"},
		{regexp.MustCompile(`\bshare` + `d/(reference|design|style|testbeds|examples)`), "names a file that is not in the project"},
		{regexp.MustCompile(`(?i)\bissu` + `e #?[0-9]`), "names a ticket without its project; write project#number or say what it is about"},
		{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`), "leaves work undone"},
	}
}

// CheckText reports every line of a text file below fsys that holds what no
// file may hold. Binary files, .git and what `make` produces are left out.
func CheckText(fsys fs.FS) ([]Violation, error) {
	var out []Violation
	banned := bans()
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("walking %s: %w", name, err)
		case d.IsDir() && (name == ".git" || name == "bin" || name == "dist"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if bytes.IndexByte(text, 0) < 0 {
			out = append(out, bannedLines(name, string(text), banned)...)
		}
		return nil
	})
	return out, err
}

func bannedLines(name, text string, banned []ban) []Violation {
	var out []Violation
	number := 0
	for line := range strings.Lines(text) {
		number++
		for _, b := range banned {
			if found := b.pattern.FindString(line); found != "" {
				out = append(out, Violation{name + ":" + strconv.Itoa(number), fmt.Sprintf("%s (%q)", b.why, strings.TrimSpace(found))})
			}
		}
	}
	return out
}
