package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestDocumentationIsFresh(t *testing.T) {
	stale, err := generate(filepath.Join("..", "..", ".."), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range stale {
		t.Errorf(`%s is stale: run "make generate"`, name)
	}
}

func TestGenerate(t *testing.T) {
	root := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, "README.md"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stale := func(doWrite bool, want ...string) {
		t.Helper()
		got, err := generate(root, doWrite)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("stale files (-want +got):\n%s", d)
		}
	}
	docs := []string{"docs/annotations.md", "docs/configuration.md", "docs/fairlead.reference.yaml"}
	stale(false, docs...) // nothing is written
	stale(true, docs...)
	stale(false)
	write("# Title\n\nno markers\n")
	stale(true)
	write("before\n" + begin + "\nold\n" + end + "\nafter\n")
	stale(false, "README.md")
	stale(true, "README.md")
	stale(false)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.HasPrefix(s, "before\n"+begin+"\n| Option |") || !strings.HasSuffix(s, "|\n"+end+"\nafter\n") || strings.Contains(s, "old") {
		t.Errorf("the README became %q", s)
	}
	write("before\n" + begin + "\n")
	if _, err := generate(root, true); err == nil {
		t.Error("a marker without its end is no error")
	}
}
