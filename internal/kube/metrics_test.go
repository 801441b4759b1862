package kube

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// TestMetricsOfTheRuntimeAreThere: the page for operators names metrics of
// controller-runtime and client-go, whose names are theirs to change.
func TestMetricsOfTheRuntimeAreThere(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## The controller\n")
	if !found {
		t.Fatal("docs/metrics.md has no section about the controller")
	}
	registered := registeredMetrics(t)
	rows := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 4 || !strings.Contains(cells[0], "`") {
			continue
		}
		rows++
		name := strings.Trim(cells[0], " `")
		labels, there := registered[name]
		if !there {
			t.Errorf("docs/metrics.md names %s, which nobody exports", name)
			continue
		}
		if diff := cmp.Diff(labels, wordsOf(cells[2])); diff != "" {
			t.Errorf("the labels of %s (-exported +page):\n%s", name, diff)
		}
	}
	if rows < 5 {
		t.Errorf("docs/metrics.md has %d rows about the controller; the test reads another table than it should", rows)
	}
}

// registeredMetrics returns the labels, sorted, of all that the runtime will
// export, whether it has a value yet or not.
func registeredMetrics(t *testing.T) map[string][]string {
	t.Helper()
	registry, ok := ctrlmetrics.Registry.(prometheus.Collector)
	if !ok {
		t.Fatalf("%T does not tell its metrics", ctrlmetrics.Registry)
	}
	described := make(chan *prometheus.Desc)
	go func() {
		registry.Describe(described)
		close(described)
	}()
	form := regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)
	out := map[string][]string{}
	for d := range described {
		if m := form.FindStringSubmatch(d.String()); m != nil {
			out[m[1]] = wordsOf(m[2])
		}
	}
	return out
}

func wordsOf(list string) []string {
	words := []string{}
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.Trim(word, " `"); word != "" {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return words
}
