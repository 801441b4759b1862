package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// manifestLimit bounds a file, in bytes.
const manifestLimit = 16 << 20

// manifest is what the files say that a plan is made from.
type manifest struct {
	services []fileService
	slices   []discoveryv1.EndpointSlice
	nodes    []corev1.Node
	// passed are the objects that a plan has no use for.
	passed []string
}

// fileService is a Service as it is written.
type fileService struct {
	svc *corev1.Service
	// json is all that is written, and nothing else.
	json []byte
	// at is the file and line.
	at string
}

// readManifests reads files, folders (their .yaml, .yml and .json files in the
// order of names, with those of the folders in them when it is recursive) and
// the standard input.
func readManifests(w world, names []string, recursive bool) (manifest, error) {
	var m manifest
	for _, name := range names {
		files, err := filesOf(name, recursive)
		if err != nil {
			return m, err
		}
		for _, file := range files {
			text, err := readFile(w, file)
			if err != nil {
				return m, err
			}
			if err := m.add(nameOf(file), text); err != nil {
				return m, err
			}
		}
	}
	return m, nil
}

func filesOf(name string, recursive bool) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("looking for a manifest: %w", err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	var files []string
	err = filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
		switch ext := filepath.Ext(path); {
		case err != nil:
			return err
		case e.IsDir() && path != name && !recursive:
			return filepath.SkipDir
		case !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, ext):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading a folder: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("reading folder %s: it has no .yaml, .yml or .json file", name)
	}
	return files, nil
}

func readFile(w world, file string) ([]byte, error) {
	in, err := open(w, file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, manifestLimit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", nameOf(file), err)
	}
	if len(text) > manifestLimit {
		return nil, fmt.Errorf("reading %s: it is longer than %d MiB", nameOf(file), manifestLimit>>20)
	}
	return text, nil
}

// add takes every document of a file.
func (m *manifest) add(file string, text []byte) error {
	for _, d := range documentsOf(text) {
		data, err := yaml.YAMLToJSONStrict(d)
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		if s := strings.TrimSpace(string(data)); s == "" || s == "null" {
			continue
		}
		if err := m.object(object{file: file, source: d, json: data}); err != nil {
			return err
		}
	}
	return nil
}

// documentsOf splits a stream at its "---" lines. The lines before a document
// are left empty, so that lines count from the top of the file.
func documentsOf(text []byte) [][]byte {
	var docs [][]byte
	var doc []byte
	for n, line := range bytes.SplitAfter(text, []byte("\n")) {
		bare := bytes.TrimRight(line, " \t\r\n")
		if bytes.Equal(bare, []byte("---")) || bytes.HasPrefix(line, []byte("--- ")) {
			docs = append(docs, doc)
			doc = bytes.Repeat([]byte("\n"), n+1)
			continue
		}
		doc = append(doc, line...)
	}
	return append(docs, doc)
}

// object is one object of a document.
type object struct {
	file   string
	source []byte
	json   []byte
	// path leads to it within the document: "" or "items[2]".
	path string
}

func (o object) at(path string) string {
	switch {
	case o.path != "" && path != "":
		path = o.path + "." + path
	case path == "":
		path = o.path
	}
	return fmt.Sprintf("%s:%d", o.file, lineOf(o.source, path))
}

// header is what every object says of itself.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// object takes one object, or every item of a list.
func (m *manifest) object(o object) error {
	var h header
	if err := json.Unmarshal(o.json, &h); err != nil {
		return fmt.Errorf("%s: this is no Kubernetes object: %w", o.at(""), err)
	}
	switch h.APIVersion + " " + h.Kind {
	case "v1 List", "v1 ServiceList":
		for i, item := range h.Items {
			if err := m.object(object{o.file, o.source, item, fmt.Sprintf("%sitems[%d]", o.prefix(), i)}); err != nil {
				return err
			}
		}
		return nil
	case "v1 Service":
		return m.service(o)
	case "discovery.k8s.io/v1 EndpointSlice":
		return decodeInto(o, &m.slices)
	case "v1 Node":
		return decodeInto(o, &m.nodes)
	case " ":
		return fmt.Errorf("%s: apiVersion and kind are missing", o.at(""))
	}
	m.passed = append(m.passed, fmt.Sprintf("%s: passed over %s %s", o.at(""), h.Kind, h.Metadata.Name))
	return nil
}

func (o object) prefix() string {
	if o.path == "" {
		return ""
	}
	return o.path + "."
}

func (m *manifest) service(o object) error {
	svc := &corev1.Service{}
	if err := decode(o, svc); err != nil {
		return err
	}
	if err := checkService(o, svc); err != nil {
		return err
	}
	m.services = append(m.services, fileService{svc: svc, json: o.json, at: o.at("")})
	return nil
}

// checkService looks for what the API server would refuse and a plan cannot do without.
func checkService(o object, svc *corev1.Service) error {
	if svc.Name == "" {
		return fmt.Errorf("%s: the Service has no metadata.name", o.at("metadata"))
	}
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	if len(svc.Spec.Ports) == 0 {
		return fmt.Errorf("%s: Service %s has no spec.ports", o.at("spec"), svc.Name)
	}
	for i, p := range svc.Spec.Ports {
		if p.Port < 1 || p.Port > 65535 {
			path := fmt.Sprintf("spec.ports[%d].port", i)
			return fmt.Errorf("%s: %s is %d; allowed: 1 to 65535", o.at(path), path, p.Port)
		}
	}
	return nil
}

func decodeInto[T any](o object, into *[]T) error {
	var x T
	if err := decode(o, &x); err != nil {
		return err
	}
	*into = append(*into, x)
	return nil
}

// decode refuses what the type does not know, each with its line.
func decode(o object, into any) error {
	strict, err := kjson.UnmarshalStrict(o.json, into, kjson.DisallowUnknownFields)
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return fmt.Errorf("%s: %s is a %s where a %s belongs", o.at(mismatch.Field), mismatch.Field, mismatch.Value, kindText(mismatch.Type.Kind()))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.at(""), err)
	}
	problems := make([]error, 0, len(strict))
	for _, s := range strict {
		path := ""
		if field, ok := errors.AsType[kjson.FieldError](s); ok {
			path = field.FieldPath()
		}
		problems = append(problems, fmt.Errorf("%s: %w", o.at(path), s))
	}
	return errors.Join(problems...)
}

// kindText names a kind of value in JSON's words.
func kindText(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Map, reflect.Struct, reflect.Pointer, reflect.Interface:
		return "object"
	default:
		return "number"
	}
}
