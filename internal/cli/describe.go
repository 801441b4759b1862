package cli

import (
	"context"
	"fmt"
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
	now    time.Time
	svc    *corev1.Service
	record *v1alpha1.ServiceRecord
	slices []discoveryv1.EndpointSlice
	nodes  []corev1.Node
	events []corev1.Event
	// slicesRead, nodesRead and recordRead tell an absence from ignorance.
	slicesRead, nodesRead, recordRead bool
	unread                            []string
}

func describeCommand(w world) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "describe svc/NAME",
		Aliases: []string{"why"},
		Short:   "Show a Service's way from manifest to traffic, and what is wrong on it",
		Long: "Show a Service's way hop by hop: is it Fairlead's, is its manifest understood, has it an address, are its ports\n" +
			"served, has each port endpoints that are ready, and what does the controller say. The first hop that is not as\n" +
			"it should be gives the cause and the remedy at the end, missing endpoints only when nothing else does; the last\n" +
			"events follow.\n\n" +
			"It needs the rights to read Services, EndpointSlices and events in the namespace. Nodes and Fairlead's records\n" +
			"make it more exact; what may not be read is said. The exit code is 1 when something is wrong.",
		Example: "  fairlead describe svc/web\n  fairlead describe -n shop web",
		Args:    exactly(1),
	}
	o := clusterFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a, err := w.open(*o)
		if err != nil {
			return err
		}
		svc, err := find(cmd.Context(), a, args[0])
		if err != nil {
			return err
		}
		f, err := gather(cmd.Context(), a, svc)
		if err != nil {
			return err
		}
		f.now = w.now()
		hops := hopsOf(f)
		fmt.Fprint(w.Out, describeText(f, hops))
		if blamed(hops) != nil {
			return said(ExitFailed)
		}
		return nil
	}
	return cmd
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
