package cli

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// lineOf finds the line, counted from 1, of a path such as "spec.ports[0].name"
// in a YAML document, or of the nearest part of the path that is there. An
// index may be left out where there is one element only.
func lineOf(document []byte, path string) int {
	var root yaml.Node
	if yaml.Unmarshal(document, &root) != nil || len(root.Content) == 0 {
		return 1
	}
	node := root.Content[0]
	line := node.Line
	for path != "" {
		next, at, rest := step(node, path)
		if next == nil {
			break
		}
		node, line, path = next, at, rest
	}
	return line
}

// step takes one step along a path: it returns the node, the line where it is
// named, and what remains of the path.
func step(node *yaml.Node, path string) (next *yaml.Node, line int, rest string) {
	if node.Kind == yaml.SequenceNode {
		return element(node, path)
	}
	if node.Kind != yaml.MappingNode {
		return nil, 0, ""
	}
	// A key may hold dots: the longest key that fits is taken.
	best := -1
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i].Value
		after, ok := strings.CutPrefix(path, key)
		if ok && (after == "" || after[0] == '.' || after[0] == '[') && (best < 0 || len(key) > len(node.Content[best].Value)) {
			best = i
		}
	}
	if best < 0 {
		return nil, 0, ""
	}
	rest = strings.TrimPrefix(strings.TrimPrefix(path, node.Content[best].Value), ".")
	return node.Content[best+1], node.Content[best].Line, rest
}

func element(node *yaml.Node, path string) (next *yaml.Node, line int, rest string) {
	index := 0
	if inner, ok := strings.CutPrefix(path, "["); ok {
		number, after, _ := strings.Cut(inner, "]")
		n, err := strconv.Atoi(number)
		if err != nil {
			return nil, 0, ""
		}
		index, path = n, strings.TrimPrefix(after, ".")
	} else if len(node.Content) > 1 {
		return nil, 0, ""
	}
	if index >= len(node.Content) {
		return nil, 0, ""
	}
	return node.Content[index], node.Content[index].Line, path
}
