package archtest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/fairlead-lb/fairlead/api/config"
	"github.com/fairlead-lb/fairlead/internal/devcluster"
	"github.com/fairlead-lb/fairlead/internal/devcluster/devclustertest"
)

func TestEveryReasonIsExplained(t *testing.T) {
	page, err := os.ReadFile(root + "/docs/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	reasons := Reasons(read(t))
	// One of each kind: a list that is cut short would pass.
	for _, reason := range []string{"Paused", "PortsFailed", "AddressHeld", "NoNodePort", "PortInUse", "DeletedLoadBalancer"} {
		if reasons[reason] == "" {
			t.Errorf("%s is not found in the sources; the test looks in the wrong place", reason)
		}
	}
	report(t, CheckReasons(reasons, "docs/conditions.md", string(page)))
}

func TestLinksLeadSomewhere(t *testing.T) {
	pages := readPages(t)
	report(t, CheckLinks(os.DirFS(root), pages))
}

func readPages(t *testing.T) map[string]string {
	t.Helper()
	pages, err := Pages(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	if pages["README.md"] == "" || pages["docs/conditions.md"] == "" {
		t.Fatalf("README.md or docs/conditions.md is not among the pages below %s", root)
	}
	return pages
}

// object is what tells a manifest from a fragment.
type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
	} `json:"metadata"`
}

// written returns the YAML blocks of the pages that people wrote: generated
// pages are checked by what generates them.
func written(t *testing.T) (manifests, fragments []Block) {
	t.Helper()
	pages := readPages(t)
	for name, text := range pages {
		if strings.Contains(text, "<!-- Made from ") {
			continue
		}
		for _, b := range Blocks(name, text) {
			switch b.Info {
			case "yaml":
				manifests = append(manifests, b)
			case "yaml fragment":
				fragments = append(fragments, b)
			}
		}
	}
	byPlace := func(a, b Block) int { return strings.Compare(a.Where, b.Where) }
	slices.SortFunc(manifests, byPlace)
	slices.SortFunc(fragments, byPlace)
	return manifests, fragments
}

// documents parts a block into its documents, each with what it says it is.
func documents(t *testing.T, b Block) map[string]object {
	t.Helper()
	out := map[string]object{}
	for text := range strings.SplitSeq(b.Text, "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Errorf("%s: %v", b.Where, err)
			continue
		}
		out[text] = o
	}
	return out
}

func TestFragmentsAreYAML(t *testing.T) {
	_, fragments := written(t)
	for _, b := range fragments {
		var anything any
		if err := yaml.Unmarshal([]byte(b.Text), &anything); err != nil || anything == nil {
			t.Errorf("%s: holds %v (error %v)", b.Where, anything, err)
		}
	}
}

// TestConfigurationsOnPagesAreValid: what people copy is accepted.
func TestConfigurationsOnPagesAreValid(t *testing.T) {
	manifests, _ := written(t)
	tried := 0
	for _, b := range manifests {
		for text, o := range documents(t, b) {
			if o.Kind != "Configuration" {
				continue
			}
			tried++
			if _, err := config.Parse(strings.NewReader(text)); err != nil {
				t.Errorf("%s: %v", b.Where, err)
			}
		}
	}
	if tried == 0 {
		t.Error("no page shows a configuration; the test looks in the wrong place")
	}
}

// TestManifestsOnPagesAreAccepted gives every whole manifest of the pages to a
// real API server, which admits and does not store it.
func TestManifestsOnPagesAreAccepted(t *testing.T) {
	manifests, _ := written(t)
	bodies, namespaces := map[string]string{}, []string{}
	for _, b := range manifests {
		for text, o := range documents(t, b) {
			switch {
			case o.Kind == "Configuration":
			case o.APIVersion == "" || o.Kind == "" || o.Metadata.Name == "":
				t.Errorf("%s: is no whole manifest; call it \"yaml fragment\"", b.Where)
			default:
				bodies[b.Where+" "+o.Kind+" "+o.Metadata.Name] = text
				namespaces = append(namespaces, o.Metadata.Namespace)
			}
		}
	}
	if len(bodies) == 0 {
		t.Fatal("no page shows a manifest; the test looks in the wrong place")
	}
	cluster := devclustertest.Start(t, devcluster.StartOptions{Manifests: []string{root + "/deploy/crds", root + "/deploy/rbac"}})
	slices.Sort(namespaces)
	for _, n := range slices.Compact(namespaces) {
		if n == "" || n == "fairlead-system" {
			continue
		}
		if _, err := cluster.Kubectl(t.Context(), "create", "namespace", n); err != nil {
			t.Fatal(err)
		}
	}
	for where, text := range bodies {
		t.Run(where, func(t *testing.T) {
			file := t.TempDir() + "/manifest.yaml"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := cluster.Kubectl(t.Context(), "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", file); err != nil {
				t.Errorf("it is refused: %v", err)
			}
		})
	}
}

func TestReasonsAreCompared(t *testing.T) {
	sources := sound()
	sources["internal/status/status.go"] = "// Package status is planted.\npackage status\n\nconst ReasonPaused = \"Paused\"\n\nvar Other = \"Fine\"\n"
	sources["internal/controller/tell.go"] = "// Package controller is planted.\npackage controller\n\nfunc tell(string) {}\n\nfunc f() { tell(\"ThingsHappened\"); tell(\"lower\"); tell(\"ToBeDeletedByClusterAutoscaler\") }\n"
	sources["internal/plan/x.go"] = "package plan\n\nconst word = \"NotForUsers\"\n"
	cases := map[string]struct {
		reason string
		page   string
		want   []string
	}{
		"all of them": {
			reason: "a page that explains each is right, whatever other tables it has",
			page:   "| Reason | Meaning |\n|---|---|\n| `Paused` | p |\n\n| Reason |\n|---|\n| `ThingsHappened` |\n\n| Condition |\n|---|\n| `SomethingElse` |\n",
		},
		"one missing": {
			reason: "who meets it finds nothing",
			page:   "| Reason |\n|---|\n| `ThingsHappened` |\n\n`Paused` in a text is no explanation.\n",
			want:   []string{"internal/status/status.go:4: says Paused, which page.md does not explain; add it to a table there"},
		},
		"one invented": {
			reason: "it was renamed or is gone",
			page:   "| Reason |\n|---|\n| `Paused` |\n| `ThingsHappened` |\n| `NotForUsers` |\n",
			want:   []string{"page.md:5: explains NotForUsers, which nothing says"},
		},
	}
	reasons := Reasons(treeOf(t, sources))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, texts(CheckReasons(reasons, "page.md", tc.page))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestBrokenLinksAreReported(t *testing.T) {
	pages := map[string]string{
		"README.md":    "# Top\n[a](docs/a.md#a-b-cd) [out](https://example.org/x) [here](#top) [code](cmd)\n",
		"docs/a.md":    "# A b: `c.d`\n```\n# Not a heading\n```\n[up](../README.md#top)\n[no file](b.md)\n[no heading](a.md#not-a-heading)\n",
		"docs/gone.md": "[gone](../README.md#gone)\n",
	}
	files := fstest.MapFS{"cmd/main.go": {Data: []byte("package main\n")}}
	for name, text := range pages {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	want := []string{
		"docs/a.md:6: links to b.md, which is not there",
		"docs/a.md:7: links to a.md#not-a-heading, and docs/a.md has no such heading",
		"docs/gone.md:1: links to ../README.md#gone, and README.md has no such heading",
	}
	if diff := cmp.Diff(want, texts(CheckLinks(files, pages))); diff != "" {
		t.Errorf("links that lead nowhere (-want +got):\n%s", diff)
	}
}

func TestBlocks(t *testing.T) {
	const page = "text\n```yaml\na: 1\n```\nmore\n\n  ```yaml fragment\n  b: 2\n  ```\n```\nplain\n```\n```console\nopen\n"
	want := []Block{
		{"p.md:2", "yaml", "a: 1\n"},
		{"p.md:7", "yaml fragment", "  b: 2\n"},
		{"p.md:10", "", "plain\n"},
		{"p.md:13", "console", "open\n"},
	}
	if diff := cmp.Diff(want, Blocks("p.md", page)); diff != "" {
		t.Errorf("the blocks of a page (-want +got):\n%s", diff)
	}
}
