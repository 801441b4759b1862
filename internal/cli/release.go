package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
)

const (
	// confirmWait is how long a live controller may take to see that a Service
	// is paused.
	confirmWait = 15 * time.Second
	// releaseTries is how often a Service that changes meanwhile is tried.
	releaseTries = 8
)

// releaseOptions are the flags of release.
type releaseOptions struct {
	cluster     *kube.UserOptions
	which       *selection
	dryRun, yes bool
	to, output  *oneOf
}

func releaseCommand(w world) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release (svc/NAME ... | --all | -l LABELS) --to occm|metallb|nothing",
		Short: "Let go of Services, so that another controller or nobody serves them",
		Long: "Take Fairlead's finalizer, conditions, annotation and record off Services, so that they can be deleted, and served\n" +
			"by others, without Fairlead. Nothing is deleted in a backend, and the addresses in the status stay.\n\n" +
			"--to says who comes next: occm (the OpenStack cloud controller manager) and metallb get every option that is set\n" +
			"by a neutral annotation in their own words too, where these can say it; annotations that are there are kept.\n" +
			"nothing leaves annotations alone. Services without a class keep the finalizer that OCCM uses when it comes next.\n\n" +
			"While a controller holds Fairlead's lease, each Service is paused first, so that it does not take it back; to give\n" +
			"it back to Fairlead, remove the annotation fairlead.dev/paused.\n" +
			"A release that was cut short can be repeated. It needs the rights to patch Services and their status, and to\n" +
			"delete servicerecords in Fairlead's own namespace.\n\n" +
			"-o json and yaml print a list of kind ReleaseList (" + listVersion + "). Each item has namespace, name, state (Planned,\n" +
			"Released, Failed, or Unchanged when there is nothing to do), annotations that are added, record and reports that are\n" +
			"removed (true or false), finalizers that are removed, notes and error. They need --yes or --dry-run. Fields are\n" +
			"added to it, never renamed or removed.",
		Example: "  fairlead release svc/web --to metallb --dry-run\n  fairlead release --all --to occm --yes\n  fairlead release -n shop -l tier=edge --to nothing --yes -o json",
		Args:    cobra.ArbitraryArgs,
	}
	o := releaseOptions{cluster: clusterFlags(cmd), which: selectionFlags(cmd), to: &oneOf{words: []string{toOCCM, toMetalLB, toNothing}}}
	o.output = outputFlag(cmd, "json", "yaml")
	f := cmd.Flags()
	f.Var(o.to, "to", "who serves the Services next")
	f.BoolVar(&o.which.all, "all", false, "every Service of Fairlead's, in all namespaces; with -n those of one")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be done, and do nothing")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(args); err != nil {
			return err
		}
		return runRelease(cmd.Context(), w, o, args)
	}
	return cmd
}

func (o releaseOptions) check(names []string) error {
	switch {
	case o.to.value == "":
		return usage("say who serves the Services next: --to %s", o.to.Type())
	case len(names) == 0 && !o.which.all && o.which.selector == "":
		return usage("name Services, svc/NAME, or give --all or -l")
	case o.output.value != "" && !o.yes && !o.dryRun:
		return usage("-o %s asks nothing; give --yes or --dry-run", o.output.value)
	}
	return o.which.parse(names)
}

// releaser carries releases out.
type releaser struct {
	*access
	world
	release
	// silent: the controller does not confirm; it is waited for no more.
	silent bool
}

func runRelease(ctx context.Context, w world, o releaseOptions, args []string) error {
	a, err := w.open(*o.cluster)
	if err != nil {
		return err
	}
	found, err := toRelease(ctx, a, o, args)
	if err != nil {
		return err
	}
	r := &releaser{access: a, world: w, release: release{to: o.to.value}}
	if err := r.lookForController(ctx); err != nil {
		return err
	}
	work, err := r.announce(ctx, found, o.output.value == "")
	if err != nil {
		return err
	}
	left := slices.ContainsFunc(work, func(d releasing) bool { return !d.empty() })
	if left && !o.dryRun {
		if !o.yes && !r.confirm(work, o.to.value) {
			return errors.New("nothing was done; confirm with y, or give --yes")
		}
		err = r.carryOut(ctx, work, o.output.value == "")
	}
	if o.output.value != "" {
		return cmp.Or(printReleases(w, o.output.value, work), err)
	}
	return err
}

// carryOut releases what has been announced, up to the first that fails.
func (r *releaser) carryOut(ctx context.Context, work []releasing, tell bool) error {
	for i := range work {
		d := &work[i]
		if d.empty() {
			continue
		}
		if err := r.letGo(ctx, d.key); err != nil {
			d.failed = err
			return fmt.Errorf("releasing service %s: %w", d.key, err)
		}
		if d.done = true; !tell {
			continue
		}
		fmt.Fprintf(r.Out, "✓ released %s%s\n", d.key, r.again())
	}
	return nil
}

// again is what is left to do while a controller goes on reporting.
func (r *releaser) again() string {
	if !r.pause {
		return ""
	}
	return "; run it again once the controller is stopped"
}

// toRelease reads the Services that are meant.
func toRelease(ctx context.Context, a *access, o releaseOptions, names []string) ([]corev1.Service, error) {
	namespace := o.which.namespace(a)
	if o.which.all && !o.which.everywhere {
		namespace = o.cluster.Namespace
	}
	return o.which.services(ctx, a, names, namespace)
}

// lookForController decides whether Services have to be paused.
func (r *releaser) lookForController(ctx context.Context) error {
	leader, err := r.Leader(ctx, r.now())
	switch {
	case apierrors.IsForbidden(err):
		fmt.Fprintln(r.Err, "You may not read Fairlead's lease, so a controller is taken to be running: Services are paused.")
		r.pause = true
	case err != nil:
		return err
	case leader != "":
		fmt.Fprintf(r.Err, "Controller %s is running: Services are paused, so that it does not take them back. It goes on reporting on them until it is stopped.\n", leader)
		r.pause = true
	}
	return nil
}

// announce decides what is to be done, and says it.
func (r *releaser) announce(ctx context.Context, found []corev1.Service, tell bool) ([]releasing, error) {
	work := make([]releasing, 0, len(found))
	if len(found) == 0 {
		fmt.Fprintln(r.Err, "No Service is Fairlead's.")
	}
	for i := range found {
		key := kube.KeyOf(&found[i])
		recorded, err := r.recorded(ctx, key)
		if err != nil {
			return nil, err
		}
		h := handoverOf(&found[i], recorded, r.release)
		if tell {
			fmt.Fprint(r.Out, h.text(&found[i]))
		}
		work = append(work, releasing{handover: h, key: key})
	}
	return work, nil
}

func (r *releaser) recorded(ctx context.Context, key model.Key) (bool, error) {
	record, err := r.Record(ctx, key)
	if kube.IsUnknownKind(err) {
		return false, nil
	}
	return record != nil, err
}

func (r *releaser) confirm(work []releasing, to string) bool {
	n := 0
	for _, d := range work {
		if !d.empty() {
			n++
		}
	}
	fmt.Fprintf(r.Err, "Release %s to %s? [y/N] ", count(n, "Service"), to)
	line, _ := bufio.NewReader(r.In).ReadString('\n')
	fmt.Fprintln(r.Err)
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// letGo releases one Service, again when it changes meanwhile.
func (r *releaser) letGo(ctx context.Context, key model.Key) error {
	for try := 1; ; try++ {
		err := r.letGoOnce(ctx, key)
		if !errors.Is(err, kube.ErrMovedOn) || try == releaseTries {
			return err
		}
	}
}

// letGoOnce writes in an order that can be cut anywhere: the pause before
// all that a controller would write again, and what a class-less Service is
// known by as Fairlead's last, in a single write.
func (r *releaser) letGoOnce(ctx context.Context, key model.Key) error {
	svc, err := r.Service(ctx, key)
	if err != nil || svc == nil {
		return err
	}
	recorded, err := r.recorded(ctx, key)
	if err != nil {
		return err
	}
	h := handoverOf(svc, recorded, r.release)
	if len(h.annotations) > 0 {
		if err := r.Annotate(ctx, svc, h.annotations); err != nil {
			return err
		}
	}
	if svc, err = r.seen(ctx, svc); err != nil || svc == nil {
		return err
	}
	if h.record {
		if err := r.Forget(ctx, key); err != nil {
			return err
		}
	}
	return r.Release(ctx, svc, h.keep)
}

// seen waits until a live controller has seen that the Service is paused, so
// that a write it was about to make comes before ours, and returns the Service.
func (r *releaser) seen(ctx context.Context, svc *corev1.Service) (*corev1.Service, error) {
	if _, spoken := svc.Annotations[annotation.Observed.Key()]; !r.pause || r.silent || !spoken {
		return svc, nil
	}
	bounded, cancel := context.WithTimeout(ctx, confirmWait)
	defer cancel()
	latest := svc
	err := r.Watch(bounded, kube.KeyOf(svc), func(s *corev1.Service) bool {
		latest = s
		return s == nil || upToDate(s)
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		r.silent = true
		fmt.Fprintf(r.Err, "The controller has not confirmed within %s that %s is paused; going on.\n", confirmWait, kube.KeyOf(svc))
		return latest, nil
	}
	return latest, err
}
