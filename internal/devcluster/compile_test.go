package devcluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// kubernetesModule is a module that stands for devcluster: its Kubernetes is a
// folder, with the variables that a build sets the version in.
func kubernetesModule(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module m\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.2.3\n\nreplace k8s.io/kubernetes => ./kubernetes\n")
	write(t, dir, "main.go", program)
	write(t, dir, "kubernetes/go.mod", "module k8s.io/kubernetes\n\ngo 1.26.0\n")
	write(t, dir, "kubernetes/k.go", "package kubernetes\n")
	return dir
}

func TestCompileWithGo(t *testing.T) {
	source := kubernetesModule(t, "package main\n\nimport _ \"k8s.io/kubernetes\"\n\nfunc main() { print(\"hello\") }\n")
	target := filepath.Join(t.TempDir(), "program")
	var out syncBuffer
	if err := compileWithGo(t.Context(), job{source: source, target: target, out: &out}); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command(target).CombinedOutput(); err != nil || string(said) != "hello" {
		t.Errorf("the program printed %q, %v", said, err)
	}
	if text := out.String(); !strings.Contains(text, "Kubernetes 1.2.3") || !strings.Contains(text, "built in") {
		t.Errorf("progress does not say what is built and that it is done: %q", text)
	}
}

func TestCompileWithGoFails(t *testing.T) {
	source := kubernetesModule(t, "package main\n\nimport _ \"k8s.io/kubernetes\"\n\nfunc main() { undefinedName() }\n")
	target := filepath.Join(t.TempDir(), "program")
	err := compileWithGo(t.Context(), job{source: source, target: target, out: &syncBuffer{}})
	if err == nil || !strings.Contains(err.Error(), "main.go:5:15: undefined: undefinedName") {
		t.Errorf("got %v, want the compiler's words", err)
	}
}

func TestDescribeGo(t *testing.T) {
	dir := kubernetesModule(t, "package main\n")
	native, err := describeGo(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOARCH", "riscv64")
	other, err := describeGo(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(native, "go1.") || !strings.Contains(other, "riscv64") || native == other {
		t.Errorf("descriptions %q and %q do not tell the platforms apart", native, other)
	}
}

func TestBuildFlags(t *testing.T) {
	got := strings.Join(buildFlags("v1.37.2"), " ")
	for _, want := range []string{
		"-trimpath",
		"-X k8s.io/component-base/version.gitVersion=v1.37.2",
		"-X k8s.io/component-base/version.gitMajor=1 ",
		"-X k8s.io/client-go/pkg/version.gitMinor=37 ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("flags %q lack %q", got, want)
		}
	}
}

func TestMeter(t *testing.T) {
	m := &meter{}
	for _, piece := range []string{ // as pipes cut them
		"runtime\nk8s.io/api/co", "re/v1\n# k8s.io/broken\n", "a.go:1:2: syntax error\n\tdetail\nnet/http\ngo: download", "ing x v1",
	} {
		if n, err := m.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("Write took %d of %d, %v", n, len(piece), err)
		}
	}
	if m.compiled != 3 {
		t.Errorf("counted %d packages, want 3", m.compiled)
	}
	want := "# k8s.io/broken\na.go:1:2: syntax error\n\tdetail\ngo: downloading x v1"
	if diff := cmp.Diff(want, m.lastWords()); diff != "" {
		t.Errorf("last words (-want +got):\n%s", diff)
	}
	for range 3 * keptLines {
		if _, err := m.Write([]byte("an error\n")); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(m.lastWords(), "an error"); got > keptLines {
		t.Errorf("kept %d lines, want at most %d", got, keptLines)
	}
}

func TestMeterReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var out syncBuffer
		m := &meter{total: 9, compiled: 4}
		go m.report(ctx, &out)
		time.Sleep(2*reportEvery + time.Second)
		cancel()
		synctest.Wait()
		time.Sleep(10 * reportEvery) // after its end it says nothing more
		want := "devcluster: 15s, compiled 4 packages of at most 9\ndevcluster: 30s, compiled 4 packages of at most 9\n"
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
	})
}

func TestKubernetesVersion(t *testing.T) {
	cases := map[string]struct{ reason, mod, want string }{
		"Block":  {reason: "requirements mostly stand in a block", mod: "require (\n\tk8s.io/kubernetes v1.37.2\n)\n", want: "v1.37.2"},
		"Single": {reason: "or on a line", mod: "require k8s.io/kubernetes v1.37.2\n", want: "v1.37.2"},
		"None":   {reason: "a replacement is no requirement", mod: "replace k8s.io/kubernetes => k8s.io/kubernetes v1.37.2\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "go.mod", "module m\n\n"+tc.mod)
			if got, err := kubernetesVersion(dir); got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("got %q, %v; want %q: %s", got, err, tc.want, tc.reason)
			}
		})
	}
}

func TestFindSource(t *testing.T) {
	root := t.TempDir()
	write(t, root, "go.mod", rootModule)
	write(t, root, "devcluster/go.mod", "module github.com/fairlead-lb/fairlead/devcluster\n")
	write(t, root, "internal/a/a.go", "package a\n")
	want, err := filepath.EvalSymlinks(filepath.Join(root, "devcluster"))
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{".", "internal/a", "devcluster"} {
		t.Run(from, func(t *testing.T) {
			t.Chdir(filepath.Join(root, from))
			got, err := findSource("")
			if err != nil {
				t.Fatal(err)
			}
			if got, err = filepath.EvalSymlinks(got); err != nil || got != want {
				t.Errorf("got %s, %v; want %s", got, err, want)
			}
		})
	}
	t.Run("Outside", func(t *testing.T) {
		t.Chdir(t.TempDir())
		if got, err := findSource(""); err == nil {
			t.Errorf("found %s outside of any checkout", got)
		}
	})
	if _, err := os.Stat(want); err != nil {
		t.Fatal(err)
	}
}
