package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
)

// getOptions are the flags of get.
type getOptions struct {
	cluster *kube.UserOptions
	which   *selection
	output  *oneOf
}

func getCommand(w world) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get [balancers]",
		Aliases: []string{"list", "ls"},
		Short:   "List the Services that Fairlead serves",
		Long: "List the Services of type LoadBalancer that are Fairlead's: by their class fairlead.dev/*, by its finalizer,\n" +
			"or because it has reported on them.\n\n" +
			"STATUS is Programmed when every port is served as asked, the reason of the condition when it is not, Updating\n" +
			"while the controller has not acted on the present spec, and NotSeen when no controller has looked at it.\n\n" +
			"-o json and yaml print a list of kind BalancerList (" + listVersion + "). Each item has namespace, name, class, provider,\n" +
			"addresses, ports (name, protocol, port, nodePort), accepted and programmed (True, False or Unknown), upToDate,\n" +
			"status, reason, message and created. Fields are added to it, never renamed or removed.",
		Example: "  fairlead get\n  fairlead get balancers -A -o wide\n  fairlead get -n shop -l tier=edge -o json",
		Args:    onlyBalancers(w),
	}
	o := getOptions{cluster: clusterFlags(cmd), which: selectionFlags(cmd)}
	o.output = outputFlag(cmd, "wide", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runGet(cmd.Context(), w, o) }
	return cmd
}

func onlyBalancers(w world) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		words := []string{"balancers", "balancer", "lb", "services", "svc"}
		for _, a := range args {
			if !slices.Contains(words, a) || len(args) > 1 {
				return usage("\"get\" lists balancers and nothing else; for one Service use \"%s describe svc/NAME\"", w.program)
			}
		}
		return nil
	}
}

func runGet(ctx context.Context, w world, o getOptions) error {
	if err := o.which.parse(nil); err != nil {
		return err
	}
	a, err := w.open(*o.cluster)
	if err != nil {
		return err
	}
	found, err := o.which.services(ctx, a, nil, o.which.namespace(a))
	if err != nil {
		return err
	}
	records := recordsFor(ctx, a, found)
	items := make([]balancer, 0, len(found))
	for i := range found {
		items = append(items, balancerOf(&found[i], providerOf(&found[i], records[v1alpha1.RecordName(found[i].Namespace, found[i].Name)])))
	}
	return printBalancers(w, o, o.which.none(a), items)
}

// ourServices lists the Services that are Fairlead's.
func ourServices(ctx context.Context, a *access, namespace string, selector labels.Selector) ([]corev1.Service, error) {
	all, err := a.Services(ctx, namespace, selector)
	if err != nil {
		return nil, err
	}
	var found []corev1.Service
	for i := range all {
		if ours(&all[i]) {
			found = append(found, all[i])
		}
	}
	return found, nil
}

// recordsFor reads the records, by name, when a Service does not say by itself
// who serves it. Who may not read them does without.
func recordsFor(ctx context.Context, a *access, found []corev1.Service) map[string]*v1alpha1.ServiceRecord {
	needed := false
	for i := range found {
		needed = needed || providerOf(&found[i], nil) == ""
	}
	if !needed {
		return nil
	}
	records, err := a.Records(ctx)
	if err != nil {
		return nil
	}
	byName := make(map[string]*v1alpha1.ServiceRecord, len(records))
	for i := range records {
		byName[records[i].Name] = &records[i]
	}
	return byName
}

func printBalancers(w world, o getOptions, none string, items []balancer) error {
	switch o.output.value {
	case "json", "yaml":
		text, err := encode(o.output.value, "BalancerList", items)
		if err != nil {
			return err
		}
		fmt.Fprint(w.Out, text)
	default:
		if len(items) == 0 {
			fmt.Fprintln(w.Err, none)
			return nil
		}
		fmt.Fprint(w.Out, balancersText(items, o.which.everywhere, o.output.value == "wide", w.now()))
	}
	return nil
}

// balancersText is the table of get.
func balancersText(items []balancer, namespaces, wide bool, now time.Time) string {
	head := []string{"NAME", "PROVIDER", "ADDRESSES", "PORTS", "STATUS", "AGE"}
	if namespaces {
		head = append([]string{"NAMESPACE"}, head...)
	}
	if wide {
		head = append(head, "CLASS", "REASON", "MESSAGE")
	}
	rows := [][]string{head}
	for _, b := range items {
		row := []string{b.Name, orNone(b.Provider), addressesText(b.Addresses), b.portsText(), b.Status, age(b.Created, now)}
		if namespaces {
			row = append([]string{b.Namespace}, row...)
		}
		if wide {
			row = append(row, orNone(b.Class), orNone(b.Reason), orNone(b.Message))
		}
		rows = append(rows, row)
	}
	return table(rows)
}

func addressesText(addresses []string) string {
	if len(addresses) == 0 {
		return "<pending>"
	}
	return strings.Join(addresses, ",")
}

func (b balancer) portsText() string {
	text := make([]string, len(b.Ports))
	for i, p := range b.Ports {
		text[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
	}
	return orNone(strings.Join(text, ","))
}
