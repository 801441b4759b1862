// Package devcluster builds the development cluster, a real Kubernetes control
// plane in one binary, from the sources in this repository, keeps it in a
// cache, and runs it as a child process that ends with its parent. It needs the
// go command to build and a Unix to run. It downloads no binaries and touches
// no cluster but its own.
package devcluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// CacheVariable is the environment variable that names the folder of
	// everything Fairlead caches. Without it that is the folder fairlead in
	// os.UserCacheDir.
	CacheVariable = "FAIRLEAD_CACHE"

	binaryName = "devcluster"
	// keptBuilds is how many builds a cache holds; more than one, since
	// branches and toolchains take turns.
	keptBuilds = 3
	// lockPoll is how often a build that waits for another looks again.
	lockPoll = 200 * time.Millisecond
)

// Options say what to build and where to keep it. The zero value serves in a
// checkout of this repository.
type Options struct {
	// Source is the folder of the devcluster module. When empty it is looked
	// for from the working directory upwards.
	Source string
	// Cache is the folder to keep builds in. When empty it is the folder
	// devcluster in the one that CacheVariable names.
	Cache string
	// Out is told, in lines for people, what is being built and how far that
	// is. Nil tells no one.
	Out io.Writer
}

// Build returns the path of the binary that belongs to the sources, and builds
// it if it is not in the cache. Of several callers at once, in any number of
// processes, one builds and the others wait for it. It is safe for concurrent use.
func Build(ctx context.Context, o Options) (string, error) {
	return build(ctx, o, goToolchain())
}

// Find returns the path that Build would return, and whether the binary is
// there already. It builds nothing.
func Find(ctx context.Context, o Options) (path string, built bool, err error) {
	entry, err := locate(ctx, o, goToolchain())
	if err != nil {
		return "", false, err
	}
	return entry.binary(), entry.built(), nil
}

// toolchain is what builds: the go command, or what a test puts in its place.
type toolchain struct {
	// describe names all that decides about a build's result besides the sources.
	describe func(ctx context.Context, source string) (string, error)
	compile  func(ctx context.Context, j job) error
}

// job is one build.
type job struct {
	source string // folder of the module
	target string // file to write
	out    io.Writer
}

// entry is one build's place in the cache.
type entry struct {
	source string
	folder string
}

func (e entry) binary() string { return filepath.Join(e.folder, binaryName) }

func (e entry) built() bool {
	info, err := os.Stat(e.binary())
	return err == nil && info.Mode().IsRegular()
}

func locate(ctx context.Context, o Options, tools toolchain) (entry, error) {
	source, err := findSource(o.Source)
	if err != nil {
		return entry{}, err
	}
	cache, err := cacheFolder(o.Cache)
	if err != nil {
		return entry{}, err
	}
	tool, err := tools.describe(ctx, source)
	if err != nil {
		return entry{}, err
	}
	key, err := keyOf(source, tool)
	if err != nil {
		return entry{}, err
	}
	return entry{source: source, folder: filepath.Join(cache, key)}, nil
}

func cacheFolder(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if root := os.Getenv(CacheVariable); root != "" {
		return filepath.Join(root, binaryName), nil
	}
	root, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder (%s names another): %w", CacheVariable, err)
	}
	return filepath.Join(root, "fairlead", binaryName), nil
}

func build(ctx context.Context, o Options, tools toolchain) (string, error) {
	if o.Out == nil {
		o.Out = io.Discard
	}
	e, err := locate(ctx, o, tools)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(e.folder, 0o755); err != nil {
		return "", fmt.Errorf("making cache folder: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(e.folder, "lock"), func() {
		fmt.Fprintln(o.Out, "devcluster: another process is building it; waiting")
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if !e.built() {
		if err := compileInto(ctx, e, o.Out, tools); err != nil {
			return "", err
		}
	}
	now := time.Now()
	if err := os.Chtimes(e.folder, now, now); err != nil {
		return "", fmt.Errorf("noting use of %s: %w", e.folder, err)
	}
	return e.binary(), prune(filepath.Dir(e.folder))
}

// compileInto builds beside the binary's place and then renames, so that what
// is in its place is always whole.
func compileInto(ctx context.Context, e entry, out io.Writer, tools toolchain) error {
	unfinished := e.binary() + ".new"
	defer os.Remove(unfinished) // nothing is left of it when all went well
	if err := tools.compile(ctx, job{source: e.source, target: unfinished, out: out}); err != nil {
		return fmt.Errorf("building devcluster from %s: %w", e.source, err)
	}
	if err := os.Rename(unfinished, e.binary()); err != nil {
		return fmt.Errorf("putting devcluster in place: %w", err)
	}
	return nil
}

// prune removes all builds in cache but those used last. A binary that still
// runs lives on without its file.
func prune(cache string) error {
	folders, err := os.ReadDir(cache)
	if err != nil {
		return fmt.Errorf("listing cache: %w", err)
	}
	type use struct {
		path string
		last time.Time
	}
	var uses []use
	for _, f := range folders {
		info, err := f.Info()
		if err != nil || !f.IsDir() {
			continue // another process has removed it, or it is not ours
		}
		uses = append(uses, use{filepath.Join(cache, f.Name()), info.ModTime()})
	}
	slices.SortFunc(uses, func(a, b use) int { return b.last.Compare(a.last) })
	for i := keptBuilds; i < len(uses); i++ {
		if err := os.RemoveAll(uses[i].path); err != nil {
			return fmt.Errorf("removing an old build: %w", err)
		}
	}
	return nil
}
