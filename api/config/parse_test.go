package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const header = "apiVersion: fairlead.dev/v1alpha1\nkind: Configuration\n"

// The first line of each file is a comment that holds its problems.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad files: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(text), "\n")
			_, err = Parse(strings.NewReader(string(text)))
			if err == nil {
				t.Fatal("the file is accepted")
			}
			got := strings.ReplaceAll(err.Error(), "\n", "; ")
			if d := cmp.Diff(strings.TrimPrefix(first, "# "), got); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
			if n := len(Check(strings.NewReader(string(text)))); n != strings.Count(err.Error(), "\n")+1 {
				t.Errorf("Check reports %d problems, Parse another number", n)
			}
		})
	}
}

func TestParse(t *testing.T) {
	cases := map[string]struct {
		reason string
		text   string
		want   func(*Config)
	}{
		"nothing set": {
			reason: "what is absent has its default",
			text:   header,
			want:   func(*Config) {},
		},
		"empty section": {
			reason: "a section without fields sets none",
			text:   header + "local:\nmetrics: {}\n",
			want:   func(*Config) {},
		},
		"everything set": {
			reason: "each field goes where it belongs",
			text: header + `
mode: observe
providers: [bare-metal, openstack]
defaultProvider: bare-metal
namespace: lb
serviceSelector: "a=b,c notin (d)"
namespaceSelector: "!e"
workers: 3
resyncPeriod: 1h
addresses: {releaseDelay: 0s}
local: {pools: ["fd00::/64", "127.1.0.1-127.1.0.9"], portOffset: 8000}
metrics: {address: "[::1]:9000", secure: false}
health: {address: ""}
log: {level: debug, format: json}
shutdown: {delay: 5s, drain: 1m}
leaderElection: {enabled: false, name: x, leaseDuration: 4s, renewDeadline: 2s, retryPeriod: 100ms}
`,
			want: func(c *Config) {
				*c = Config{
					Mode: Observe, Providers: []string{"bare-metal", "openstack"}, DefaultProvider: "bare-metal",
					Namespace: "lb", ServiceSelector: "a=b,c notin (d)", NamespaceSelector: "!e", Workers: 3, ResyncPeriod: time.Hour,
					Local:          Local{Pools: []string{"fd00::/64", "127.1.0.1-127.1.0.9"}, PortOffset: 8000},
					Metrics:        Metrics{Address: "[::1]:9000"},
					Log:            Log{Level: "debug", Format: "json"},
					Shutdown:       Shutdown{Delay: 5 * time.Second, Drain: time.Minute},
					LeaderElection: LeaderElection{Name: "x", LeaseDuration: 4 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 100 * time.Millisecond},
				}
			},
		},
		"JSON": {
			reason: "JSON is YAML",
			text:   `{"apiVersion": "fairlead.dev/v1alpha1", "kind": "Configuration", "workers": 5}`,
			want:   func(c *Config) { c.Workers = 5 },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			want := New()
			c.want(&want)
			got, err := Parse(strings.NewReader(c.text))
			if err != nil {
				t.Fatalf("%s: %v", c.reason, err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, d)
			}
		})
	}
}

func TestReferenceIsTheDefault(t *testing.T) {
	got, err := Parse(strings.NewReader(Reference()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(New(), got); d != "" {
		t.Errorf("the reference file is not the default (-want +got):\n%s", d)
	}
	for _, f := range Fields() {
		name := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
		if !strings.Contains(Reference(), "\n"+strings.Repeat("  ", strings.Count(f.Path, "."))+name+": ") {
			t.Errorf("the reference file lacks %s", f.Path)
		}
		if !strings.Contains(Markdown(), "| `"+f.Path+"` |") || !strings.Contains(Markdown(), "\n## "+f.Path+"\n") {
			t.Errorf("the page lacks %s", f.Path)
		}
		if !strings.HasSuffix(f.Doc, ".") || f.takes() == "" {
			t.Errorf("%s has no documentation or says not what it takes", f.Path)
		}
	}
}

func TestReadingFails(t *testing.T) {
	broken := errors.New("broken")
	_, err := Parse(iotest.ErrReader(broken))
	var invalid *InvalidError
	if !errors.Is(err, broken) || errors.As(err, &invalid) {
		t.Errorf("Parse = %v, want what reading returned", err)
	}
	if got := Check(iotest.ErrReader(broken)); len(got) != 1 || !strings.Contains(got[0].Message, "broken") {
		t.Errorf("Check = %v, want what reading returned", got)
	}
}

func TestTooLarge(t *testing.T) {
	_, err := Parse(strings.NewReader(header + "# " + strings.Repeat("x", sizeLimit)))
	if err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") {
		t.Errorf("Parse = %v, want that the file is too large", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(header)
	f.Add(Reference())
	f.Add(header + "local: {pools: [a, &x b, *x]}\nworkers: 1e3\n<<: {mode: apply}\n")
	f.Add("? [a]\n: b\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(strings.NewReader(text))
		if err == nil {
			if again := together(c); len(again) > 0 {
				t.Fatalf("accepted with %v", again)
			}
			return
		}
		var invalid *InvalidError
		if !errors.As(err, &invalid) || len(invalid.Problems) == 0 || c.Workers != 0 {
			t.Fatalf("refused with %v and %+v", err, c)
		}
		for _, p := range invalid.Problems {
			if p.Message == "" {
				t.Fatalf("an empty problem at %q", p.Path)
			}
		}
	})
}
