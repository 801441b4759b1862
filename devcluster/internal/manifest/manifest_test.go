package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	mapA = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	mapB = `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "n"}}`
	list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: c}}\n- {apiVersion: v1, kind: Secret, metadata: {name: d}}\n"
)

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	cases := map[string]struct {
		reason string
		files  map[string]string
		paths  []string
		want   []string
		err    string
	}{
		"Documents": {
			reason: "comments between separators are no objects",
			files:  map[string]string{"x.yaml": "# first\n---\n" + mapA + "---\n# nothing\n---\n" + list},
			paths:  []string{"x.yaml"},
			want:   []string{"ConfigMap a", "Secret c", "Secret d"},
		},
		"Folder": {
			reason: "a folder is read by name, without what is no manifest and without sub-folders",
			files:  map[string]string{"2.json": mapB, "1.yml": mapA, "README.md": "text", "sub/3.yaml": mapA},
			paths:  []string{"."},
			want:   []string{"ConfigMap a", "ConfigMap n/b"},
		},
		"Order": {
			reason: "paths keep their order",
			files:  map[string]string{"a.yaml": mapA, "b.json": mapB},
			paths:  []string{"b.json", "a.yaml"},
			want:   []string{"ConfigMap n/b", "ConfigMap a"},
		},
		"None":    {reason: "no paths, no objects"},
		"Missing": {reason: "a path that is not there is a mistake", paths: []string{"x.yaml"}, err: "x.yaml"},
		"Empty":   {reason: "a folder without manifests is a mistake", files: map[string]string{"x.txt": ""}, paths: []string{"."}, err: "holds no"},
		"Syntax": {
			reason: "the document at fault is named",
			files:  map[string]string{"x.yaml": mapA + "---\na: [\n"}, paths: []string{"x.yaml"}, err: "x.yaml, document 2",
		},
		"Nameless": {
			reason: "an object without a name cannot be applied",
			files:  map[string]string{"x.yaml": "apiVersion: v1\nkind: Namespace\n"}, paths: []string{"x.yaml"}, err: "metadata.name",
		},
		"NamelessItem": {
			reason: "an item of a List is an object like others",
			files:  map[string]string{"x.yaml": "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret}]\n"}, paths: []string{"x.yaml"}, err: "metadata.name",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, tc.files)
			var paths []string
			for _, p := range tc.paths {
				paths = append(paths, filepath.Join(dir, p))
			}
			objects, err := Read(paths)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v lacks %q: %s", err, tc.err, tc.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, descriptions(objects)); diff != "" {
				t.Errorf("objects (-want +got): %s\n%s", tc.reason, diff)
			}
		})
	}
}

func TestInOrder(t *testing.T) {
	object := func(apiVersion, kind, name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion(apiVersion)
		o.SetKind(kind)
		o.SetName(name)
		return o
	}
	given := []*unstructured.Unstructured{
		object("example.org/v1", "Shelf", "s"),
		object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "shelves"),
		object("example.org/v1", "Namespace", "not the core kind"),
		object("v1", "Namespace", "n2"),
		object("v1", "Namespace", "n1"),
	}
	want := []string{"Namespace n2", "Namespace n1", "CustomResourceDefinition shelves", "Shelf s", "Namespace not the core kind"}
	if diff := cmp.Diff(want, descriptions(inOrder(given))); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if given[0].GetName() != "s" {
		t.Error("the caller's slice was reordered")
	}
}

func descriptions(objects []*unstructured.Unstructured) []string {
	var found []string
	for _, o := range objects {
		found = append(found, describe(o))
	}
	return found
}
