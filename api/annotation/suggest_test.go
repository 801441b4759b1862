package annotation

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"proxy-protocol", "paused", "pod", "address", "address-pool"}
	for typed, want := range map[string]string{
		"proxy-protcool": "proxy-protocol",
		"porxy-protocol": "proxy-protocol",
		"Proxy-Protocol": "proxy-protocol",
		"pause":          "paused",
		"pods":           "pod",
		"pdo":            "pod",
		"address-":       "address",
		"address-ppol":   "address-pool",
		"xyz":            "",
		"":               "",
		"proxy":          "",
	} {
		if got := Nearest(typed, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", typed, got, want)
		}
	}
	if got := Nearest("ax", []string{"ay", "az"}); got != "ay" {
		t.Errorf("of equally near words %q wins, want the first", got)
	}
	if got := Nearest(strings.Repeat("x", 1<<20), words); got != "" {
		t.Errorf("a megabyte is near %q", got)
	}
}

func TestDistance(t *testing.T) {
	for pair, want := range map[[2]string]int{
		{"", ""}: 0, {"", "abc"}: 3, {"abc", "abc"}: 0, {"abc", "acb"}: 1, {"abc", "abd"}: 1, {"abc", "ab"}: 1, {"kitten", "sitting"}: 3, {"ä", "a"}: 1,
	} {
		if got, back := distance(pair[0], pair[1]), distance(pair[1], pair[0]); got != want || back != want {
			t.Errorf("distance of %q is %d and %d, want %d", pair, got, back, want)
		}
	}
}
