package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

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
	cluster          *kube.UserOptions
	all, dryRun, yes bool
	to               *oneOf
}

func releaseCommand(w world) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release (svc/NAME | --all) --to occm|metallb|nothing",
		Short: "Let go of Services, so that another controller or nobody serves them",
		Long: "Take Fairlead's finalizer, conditions, annotation and record off Services, so that they can be deleted, and served\n" +
			"by others, without Fairlead. Nothing is deleted in a backend, and the addresses in the status stay.\n\n" +
			"--to says who comes next: occm (the OpenStack cloud controller manager) and metallb get every option that is set\n" +
			"by a neutral annotation in their own words too, where these can say it; annotations that are there are kept.\n" +
			"nothing leaves annotations alone. Services without a class keep the finalizer that OCCM uses when it comes next.\n\n" +
			"While a controller holds Fairlead's lease, each Service is paused first, so that it does not take it back; to give\n" +
			"it back to Fairlead, remove the annotation fairlead.dev/paused.\n" +
			"A release that was cut short can be repeated. It needs the rights to patch Services and their status, and to\n" +
			"delete servicerecords in Fairlead's own namespace.",
		Example: "  fairlead release svc/web --to metallb --dry-run\n  fairlead release --all --to occm --yes",
		Args:    atMost(1),
	}
	o := releaseOptions{cluster: clusterFlags(cmd), to: &oneOf{words: []string{toOCCM, toMetalLB, toNothing}}}
	f := cmd.Flags()
	f.Var(o.to, "to", "who serves the Services next")
	f.BoolVar(&o.all, "all", false, "every Service of Fairlead's; with -n those of one namespace")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be done, and do nothing")
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.to.value == "" {
			return usage("say who serves the Services next: --to %s", o.to.Type())
		}
		if o.all == (len(args) == 1) {
			return usage("name one Service, svc/NAME, or give --all")
		}
		return runRelease(cmd.Context(), w, o, args)
	}
	return cmd
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
	work, err := r.announce(ctx, found)
	if err != nil {
		return err
	}
	switch {
	case o.dryRun || len(work) == 0:
		return nil
	case !o.yes && !r.confirm(len(work), o.to.value):
		return errors.New("nothing was done; confirm with y, or give --yes")
	}
	for _, key := range work {
		if err := r.letGo(ctx, key); err != nil {
			return fmt.Errorf("releasing service %s: %w", key, err)
		}
		fmt.Fprintf(w.Out, "✓ released %s\n", key)
	}
	return nil
}

// toRelease reads the Services that are meant.
func toRelease(ctx context.Context, a *access, o releaseOptions, args []string) ([]corev1.Service, error) {
	if o.all {
		return ourServices(ctx, a, o.cluster.Namespace, labels.Everything())
	}
	svc, err := find(ctx, a, args[0])
	if err != nil {
		return nil, err
	}
	return []corev1.Service{*svc}, nil
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

// announce says what is to be done, and returns the Services with work.
func (r *releaser) announce(ctx context.Context, found []corev1.Service) ([]model.Key, error) {
	var work []model.Key
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
		fmt.Fprint(r.Out, h.text(&found[i]))
		if !h.empty() {
			work = append(work, key)
		}
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

func (r *releaser) confirm(n int, to string) bool {
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
// all that a controller would write again, and the finalizer, by which a
// class-less Service is known as Fairlead's, last.
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
	if err := r.Unsay(ctx, svc); err != nil {
		return err
	}
	if len(h.finalizers) == 0 {
		return nil
	}
	return r.SetFinalizers(ctx, svc, h.keep)
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
