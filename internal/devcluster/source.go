package devcluster

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// rootModule is the first line of the go.mod beside which devcluster is.
const rootModule = "module github.com/fairlead-lb/fairlead\n"

// findSource returns given, or the folder devcluster of the repository that
// the working directory is in.
func findSource(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(mod), rootModule) {
			return filepath.Join(dir, binaryName), nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("looking for the repository: %w", err)
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("looking for the repository: %s is not in a checkout of Fairlead, which devcluster is built from", start)
		}
	}
}

// keyOf names a build: the same for the same sources and tool, another for others.
func keyOf(source, tool string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00", tool)
	err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error { // in order of names
		if err != nil || d.IsDir() || !compiled(d.Name()) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s\x00%d\x00%s", filepath.ToSlash(name), len(data), data)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("reading sources of devcluster: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil))[:20], nil
}

// compiled tells whether a file of that name decides about the binary.
func compiled(name string) bool {
	return name == "go.mod" || name == "go.sum" ||
		strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// kubernetesVersion reads from the module's go.mod which Kubernetes it builds,
// for example "v1.37.2".
func kubernetesVersion(source string) (string, error) {
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("reading version of Kubernetes: %w", err)
	}
	match := regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes (v\d+\.\d+\.\d+)`).FindSubmatch(mod)
	if match == nil {
		return "", fmt.Errorf("reading version of Kubernetes: %s does not require k8s.io/kubernetes", filepath.Join(source, "go.mod"))
	}
	return string(match[1]), nil
}
