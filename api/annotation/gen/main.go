// Command gen writes the documentation that is made from the option table and
// the configuration's fields: docs/annotations.md, docs/configuration.md,
// docs/fairlead.reference.yaml, and the table of options between the markers
// of README.md, when it has them. It is run at the top of the module. With
// -check it writes nothing, names the stale files and exits with 1. It decides
// nothing about what is written.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/api/config"
)

// The markers of the generated part of README.md.
const (
	begin = "<!-- options:begin -->"
	end   = "<!-- options:end -->"
)

func main() {
	check := flag.Bool("check", false, "write nothing; exit with 1 when a file is stale")
	root := flag.String("root", ".", "the top of the module")
	flag.Parse()
	stale, err := generate(*root, !*check)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(2)
	}
	for _, name := range stale {
		if *check {
			fmt.Fprintf(os.Stderr, "%s is stale: run \"make generate\"\n", name)
		} else {
			fmt.Println("wrote", name)
		}
	}
	if *check && len(stale) > 0 {
		os.Exit(1)
	}
}

// generate returns the names of the files below root that are not as they
// should be, and writes them when asked to.
func generate(root string, write bool) (stale []string, err error) {
	files := []struct{ name, text string }{
		{"docs/annotations.md", annotation.Markdown()},
		{"docs/configuration.md", config.Markdown()},
		{"docs/fairlead.reference.yaml", config.Reference()},
	}
	readme, err := readme(root)
	if err != nil {
		return nil, err
	}
	if readme != "" {
		files = append(files, struct{ name, text string }{"README.md", readme})
	}
	for _, f := range files {
		path := filepath.Join(root, filepath.FromSlash(f.name))
		have, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading %s: %w", f.name, err)
		}
		if err == nil && string(have) == f.text {
			continue
		}
		stale = append(stale, f.name)
		if !write {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, fmt.Errorf("making the directory of %s: %w", f.name, err)
		}
		if err := os.WriteFile(path, []byte(f.text), 0o644); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.name, err)
		}
	}
	return stale, nil
}

// readme returns README.md with its generated part renewed; empty when there is
// no README.md or it has no markers.
func readme(root string) (string, error) {
	have, err := os.ReadFile(filepath.Join(root, "README.md"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading README.md: %w", err)
	}
	before, rest, opened := strings.Cut(string(have), begin)
	if !opened {
		return "", nil
	}
	_, after, closed := strings.Cut(rest, end)
	if !closed {
		return "", fmt.Errorf("reading README.md: %s without %s", begin, end)
	}
	return before + begin + "\n" + annotation.ProviderTable() + end + after, nil
}
