// Package manifest reads Kubernetes manifests from files and folders and
// brings them into a cluster by server-side apply, what others need first. It
// never changes an object on the way and never deletes one from the cluster.
package manifest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Read returns the objects in paths, in the order of the paths and of the
// documents in them. Of a folder it takes the files that end in .yaml, .yml or
// .json, by name, without its sub-folders. A List counts as its items.
func Read(paths []string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			found, err := readFile(file)
			if err != nil {
				return nil, err
			}
			objects = append(objects, found...)
		}
	}
	return objects, nil
}

func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("reading manifests: folder %s holds no .yaml, .yml or .json file", path)
	}
	return files, nil
}

func readFile(path string) ([]*unstructured.Unstructured, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	defer f.Close()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(f, 4096)
	for document := 1; ; document++ {
		var content map[string]any
		if err := decoder.Decode(&content); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading manifest %s, document %d: %w", path, document, err)
		}
		if len(content) == 0 {
			continue // only comments between two separators
		}
		found, err := expand(&unstructured.Unstructured{Object: content})
		if err != nil {
			return nil, fmt.Errorf("reading manifest %s, document %d: %w", path, document, err)
		}
		objects = append(objects, found...)
	}
}

// expand returns the items of a List, or the object itself.
func expand(object *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if !object.IsList() {
		return []*unstructured.Unstructured{object}, check(object)
	}
	var items []*unstructured.Unstructured
	err := object.EachListItem(func(item runtime.Object) error {
		one, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("item of type %T in a List", item)
		}
		items = append(items, one)
		return check(one)
	})
	return items, err
}

func check(object *unstructured.Unstructured) error {
	if object.GetAPIVersion() == "" || object.GetKind() == "" || object.GetName() == "" {
		return fmt.Errorf("object needs apiVersion, kind and metadata.name; it has %q, %q and %q",
			object.GetAPIVersion(), object.GetKind(), object.GetName())
	}
	return nil
}
