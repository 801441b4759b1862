package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
)

// facts are all that describe knows of a Service. What could not be read is
// said in unread, and absent.
type facts struct {
	now time.Time
	// program is what people type to run this program.
	program string
	svc     *corev1.Service
	record  *v1alpha1.ServiceRecord
	slices  []discoveryv1.EndpointSlice
	nodes   []corev1.Node
	events  []corev1.Event
	// slicesRead, nodesRead and recordRead tell an absence from ignorance.
	slicesRead, nodesRead, recordRead bool
	unread                            []string
}

// describeOptions are the flags of describe.
type describeOptions struct {
	cluster *kube.UserOptions
	which   *selection
	output  *oneOf
}

// described is a Service with its way.
type described struct {
	facts
	hops []hop
}

func describeCommand(w world) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "describe [svc/NAME ...]",
		Aliases: []string{"why"},
		Short:   "Show a Service's way from manifest to traffic, and what is wrong on it",
		Long: "Show a Service's way hop by hop: is it Fairlead's, is its manifest understood, has it an address, are its ports\n" +
			"served, has each port endpoints that are ready, and what does the controller say. The first hop that is not as\n" +
			"it should be gives the cause and the remedy at the end, missing endpoints only when nothing else does; notes and\n" +
			"the last events follow. Without a name, all Services in the namespace that are Fairlead's are shown.\n\n" +
			"It needs the rights to read Services, EndpointSlices and events in the namespace. Nodes and Fairlead's records\n" +
			"make it more exact; what may not be read is said. The exit code is 1 when something is wrong.\n\n" +
			"-o wide adds the conditions, and the load balancer that is asked for with its members. -o json and yaml print a\n" +
			"list of kind DescriptionList (" + listVersion + "). Each item has namespace, name, provider, wrong, cause, remedy,\n" +
			"hops (name, state, says, details; state is OK, Wrong or Unknown), notes, conditions (type, status, reason, message,\n" +
			"since) and events (last, type, reason, message). Fields are added to it, never renamed or removed.",
		Example: "  fairlead describe svc/web\n  fairlead describe -n shop web\n  fairlead describe -A -l tier=edge -o json",
		Args:    cobra.ArbitraryArgs,
	}
	o := describeOptions{cluster: clusterFlags(cmd), which: selectionFlags(cmd), output: outputFlag(cmd, "wide", "json", "yaml")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runDescribe(cmd.Context(), w, o, args) }
	return cmd
}

func runDescribe(ctx context.Context, w world, o describeOptions, names []string) error {
	if err := o.which.parse(names); err != nil {
		return err
	}
	a, err := w.open(*o.cluster)
	if err != nil {
		return err
	}
	found, err := o.which.services(ctx, a, names, o.which.namespace(a))
	if err != nil {
		return err
	}
	all := make([]described, 0, len(found))
	for i := range found {
		f, err := gather(ctx, a, &found[i])
		if err != nil {
			return err
		}
		f.now, f.program = w.now(), w.program
		all = append(all, described{f, hopsOf(f)})
	}
	if err := printDescribed(w, o.output.value, all); err != nil {
		return err
	}
	switch {
	case len(all) == 0:
		fmt.Fprintln(w.Err, o.which.none(a))
	case slices.ContainsFunc(all, func(d described) bool { return blamed(d.hops) != nil }):
		return said(ExitFailed)
	}
	return nil
}

// gather reads what bears on a Service. What the user has no right to read, or
// the cluster does not have, is noted; every other error ends it.
func gather(ctx context.Context, a *access, svc *corev1.Service) (facts, error) {
	f := facts{svc: svc}
	key := kube.KeyOf(svc)
	var err error
	if f.slices, err = a.Slices(ctx, key); f.note("endpoint slices", err, &f.slicesRead) != nil {
		return f, err
	}
	if f.nodes, err = a.Nodes(ctx); f.note("nodes", err, &f.nodesRead) != nil {
		return f, err
	}
	if f.record, err = a.Record(ctx, key); f.note("Fairlead's records", err, &f.recordRead) != nil {
		return f, err
	}
	read := false
	f.events, err = a.Events(ctx, svc)
	return f, f.note("events", err, &read)
}

func (f *facts) note(what string, err error, read *bool) error {
	*read = err == nil
	if err == nil {
		return nil
	}
	if apierrors.IsForbidden(err) {
		f.unread = append(f.unread, "You may not read "+what+".")
		return nil
	}
	if kube.IsUnknownKind(err) {
		f.unread = append(f.unread, "This cluster does not have "+what+".")
		return nil
	}
	return err
}
