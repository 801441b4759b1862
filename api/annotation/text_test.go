package annotation

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExplainSaysEverything(t *testing.T) {
	for _, o := range Table() {
		text := Explain(o)
		flat := strings.Join(strings.Fields(text), " ")
		want := append(o.Keys(), o.SpecField, o.Doc, o.Example, o.Default, o.Since, "LIVE:", "TYPE:")
		for _, p := range Providers() {
			want = append(want, string(p)+" "+string(o.On(p).State))
		}
		for _, w := range want {
			if !strings.Contains(flat, w) {
				t.Errorf("the explanation of %s lacks %q:\n%s", o.Name, w, text)
			}
		}
		for line := range strings.Lines(text) {
			if strings.HasSuffix(strings.TrimRight(line, "\n"), " ") {
				t.Errorf("the explanation of %s has a line that ends with a blank: %q", o.Name, line)
			}
		}
	}
}

func TestExplainGolden(t *testing.T) {
	for _, name := range []string{"proxy-protocol", "address", "observed", "x-forwarded-for"} {
		o, ok := Lookup(name)
		if !ok {
			t.Fatalf("%s is unknown", name)
		}
		golden(t, "explain-"+name+".txt", Explain(o))
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if f := flag.Lookup("update"); f != nil && f.Value.String() == "true" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got; run with -update when it is right):\n%s", name, d)
	}
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "rewrite the golden files")
	flag.Parse()
	os.Exit(m.Run())
}

func TestExplainAllHasARowForEach(t *testing.T) {
	lines := strings.Split(ExplainAll(), "\n")
	for i, o := range Table() {
		if !strings.HasPrefix(lines[i+1], string(o.Name)+" ") {
			t.Errorf("row %d is %q, want %s", i+1, lines[i+1], o.Name)
		}
	}
}

func TestMarkdownNamesEveryTestAndKey(t *testing.T) {
	page := Markdown()
	for _, o := range Table() {
		for _, p := range Providers() {
			if test := o.On(p).Test; test != "" && !strings.Contains(page, "`"+test+"`") {
				t.Errorf("the page lacks test %s", test)
			}
		}
		for _, want := range []string{"\n## " + string(o.Name) + "\n", "[`" + string(o.Name) + "`](#" + string(o.Name) + ")", o.Example} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q", want)
			}
		}
		for _, a := range o.Aliases {
			if !strings.Contains(page, "`"+a.Key+"`") {
				t.Errorf("the page lacks %s", a.Key)
			}
		}
		if row := "| [`" + string(o.Name) + "`](docs/annotations.md#" + string(o.Name) + ") |"; !strings.Contains(ProviderTable(), row) {
			t.Errorf("the short table lacks %s", o.Name)
		}
	}
}

func TestWrap(t *testing.T) {
	got := wrap("one two  three four-and-a-very-long-word five", 9)
	if want := "one two\nthree\nfour-and-a-very-long-word\nfive"; got != want {
		t.Errorf("wrap = %q, want %q", got, want)
	}
}
