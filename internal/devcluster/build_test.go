package devcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// errCompile is what a compiler in these tests fails with.
var errCompile = errors.New("main.go:3: undefined: x")

// fakeToolchain compiles by copying main.go, and counts how often.
type fakeToolchain struct {
	version string
	fail    bool
	hold    chan struct{} // when set, a compilation waits until it is closed
	count   atomic.Int32
}

func (f *fakeToolchain) toolchain() toolchain {
	return toolchain{
		describe: func(context.Context, string) (string, error) { return f.version, nil },
		compile: func(ctx context.Context, j job) error {
			f.count.Add(1)
			fmt.Fprintln(j.out, "compiling")
			if f.hold != nil {
				<-f.hold
			}
			data, err := os.ReadFile(filepath.Join(j.source, "main.go"))
			if err != nil {
				return err
			}
			if err := os.WriteFile(j.target, data, 0o755); err != nil {
				return err
			}
			if f.fail {
				return errCompile // with an unfinished file left behind
			}
			return nil
		},
	}
}

// write puts a file into dir, which it makes.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module m\n")
	write(t, dir, "main.go", "package main")
	write(t, dir, "internal/a/a.go", "package a")
	return dir
}

// syncBuffer is a strings.Builder for several goroutines.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestBuildAgain(t *testing.T) {
	cases := map[string]struct {
		reason   string
		change   func(t *testing.T, source string, f *fakeToolchain)
		compiles int32
	}{
		"Nothing": {
			reason:   "what is in the cache is used",
			change:   func(*testing.T, string, *fakeToolchain) {},
			compiles: 1,
		},
		"Source": {
			reason:   "a changed package makes another binary",
			change:   func(t *testing.T, s string, _ *fakeToolchain) { write(t, s, "internal/a/a.go", "package a // changed") },
			compiles: 2,
		},
		"Moved": {
			reason: "the same text at another path is another program",
			change: func(t *testing.T, s string, _ *fakeToolchain) {
				if err := os.Rename(filepath.Join(s, "internal/a"), filepath.Join(s, "internal/b")); err != nil {
					t.Fatal(err)
				}
			},
			compiles: 2,
		},
		"Requirements": {
			reason:   "another version of a dependency makes another binary",
			change:   func(t *testing.T, s string, _ *fakeToolchain) { write(t, s, "go.mod", "module m\n\ngo 1.26.0\n") },
			compiles: 2,
		},
		"Sums": {
			reason:   "checksums pin what is built",
			change:   func(t *testing.T, s string, _ *fakeToolchain) { write(t, s, "go.sum", "a v1 h1:x=\n") },
			compiles: 2,
		},
		"Toolchain": {
			reason:   "another compiler or platform makes another binary",
			change:   func(_ *testing.T, _ string, f *fakeToolchain) { f.version = "go2" },
			compiles: 2,
		},
		"TestsAndText": {
			reason: "tests and pages are not in the binary",
			change: func(t *testing.T, s string, _ *fakeToolchain) {
				write(t, s, "main_test.go", "package main")
				write(t, s, "README.md", "text")
			},
			compiles: 1,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := &fakeToolchain{version: "go1"}
			o := Options{Source: module(t), Cache: t.TempDir()}
			first, err := build(t.Context(), o, f.toolchain())
			if err != nil {
				t.Fatal(err)
			}
			tc.change(t, o.Source, f)
			second, err := build(t.Context(), o, f.toolchain())
			if err != nil {
				t.Fatal(err)
			}
			if got := f.count.Load(); got != tc.compiles || (first == second) != (tc.compiles == 1) {
				t.Errorf("compiled %d times, into %s and %s; want %d: %s", got, first, second, tc.compiles, tc.reason)
			}
			if data, err := os.ReadFile(second); err != nil || string(data) != "package main" {
				t.Errorf("binary holds %q, %v", data, err)
			}
		})
	}
}

func TestBuildAfterFailure(t *testing.T) {
	f := &fakeToolchain{version: "go1", fail: true}
	o := Options{Source: module(t), Cache: t.TempDir()}
	if _, err := build(t.Context(), o, f.toolchain()); !errors.Is(err, errCompile) {
		t.Fatalf("error %v does not hold what the compiler said", err)
	}
	e, err := locate(t.Context(), o, f.toolchain())
	if err != nil {
		t.Fatal(err)
	}
	if left := names(t, e.folder); !slices.Equal(left, []string{"lock"}) {
		t.Errorf("a failed build left %v", left)
	}
	f.fail = false
	if path, err := build(t.Context(), o, f.toolchain()); err != nil || path != e.binary() {
		t.Errorf("the next build gave %q, %v", path, err)
	}
}

func TestBuildByTwoAtOnce(t *testing.T) {
	f := &fakeToolchain{version: "go1", hold: make(chan struct{})}
	out := &syncBuffer{}
	o := Options{Source: module(t), Cache: t.TempDir(), Out: out}
	var builders sync.WaitGroup
	for range 2 {
		builders.Go(func() {
			if _, err := build(t.Context(), o, f.toolchain()); err != nil {
				t.Error(err)
			}
		})
	}
	deadline := time.After(20 * time.Second)
	for !strings.Contains(out.String(), "waiting") {
		select {
		case <-deadline:
			close(f.hold)
			t.Fatalf("no one said that it waits: %q", out)
		case <-time.After(time.Millisecond):
		}
	}
	close(f.hold)
	builders.Wait()
	if got := f.count.Load(); got != 1 {
		t.Errorf("compiled %d times; one build is enough for both", got)
	}
	if got := strings.Count(out.String(), "waiting"); got != 1 {
		t.Errorf("said %d times that it waits, want once", got)
	}
}

func TestBuildGivesUpWaiting(t *testing.T) {
	f := &fakeToolchain{version: "go1"}
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Source: module(t), Cache: t.TempDir()}
	e, err := locate(ctx, o, f.toolchain())
	if err != nil {
		t.Fatal(err)
	}
	write(t, e.folder, "lock", "")
	unlock, err := lock(ctx, filepath.Join(e.folder, "lock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	o.Out = cancelWriter(cancel) // the line that says that it waits cancels it
	if _, err := build(ctx, o, f.toolchain()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that waiting was cancelled", err)
	}
}

type cancelWriter context.CancelFunc

func (c cancelWriter) Write(p []byte) (int, error) { c(); return len(p), nil }

func TestBuildKeepsTheLastUsed(t *testing.T) {
	f := &fakeToolchain{}
	o := Options{Source: module(t), Cache: t.TempDir()}
	var paths []string
	hour := time.Now().Add(-24 * time.Hour)
	for _, version := range []string{"go1", "go2", "go3", "go1", "go4"} { // go2 is the one used longest ago
		f.version = version
		path, err := build(t.Context(), o, f.toolchain())
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
		hour = hour.Add(time.Hour)
		if version != "go4" {
			if err := os.Chtimes(filepath.Dir(path), hour, hour); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []string{paths[0], paths[2], paths[4]}
	var got []string
	for _, key := range names(t, o.Cache) {
		got = append(got, filepath.Join(o.Cache, key, binaryName))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("builds in the cache (-want +got):\n%s", diff)
	}
}

func TestFind(t *testing.T) {
	f := &fakeToolchain{version: "go1"}
	o := Options{Source: module(t), Cache: filepath.Join(t.TempDir(), "cache")}
	e, err := locate(t.Context(), o, f.toolchain())
	if err != nil || e.built() {
		t.Fatalf("built %v, %v in an empty cache", e.built(), err)
	}
	if _, err := os.Stat(o.Cache); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("looking for a build made the cache: %v", err)
	}
	path, err := build(t.Context(), o, f.toolchain())
	if err != nil {
		t.Fatal(err)
	}
	if !e.built() || e.binary() != path {
		t.Errorf("found %s (built %v), want %s", e.binary(), e.built(), path)
	}
}

func TestCacheFolder(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/xdg")
	t.Setenv("HOME", "/home/x")
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ reason, given, variable, want string }{
		"Given":    {reason: "a caller's folder is used as it is", given: "/a", variable: "/b", want: "/a"},
		"Variable": {reason: "one variable moves all that is cached", variable: "/b", want: "/b/devcluster"},
		"User":     {reason: "otherwise the user's cache holds it", want: user + "/fairlead/devcluster"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv(CacheVariable, tc.variable)
			if got, err := cacheFolder(tc.given); err != nil || got != tc.want {
				t.Errorf("got %q, %v; want %q: %s", got, err, tc.want, tc.reason)
			}
		})
	}
}

// names lists a folder, sorted.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}
