package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/api/config"
	"github.com/fairlead-lb/fairlead/internal/kube"
)

// planOptions are the flags of plan.
type planOptions struct {
	cluster *kube.UserOptions
	files   []string
	// recursive: folders with the folders in them.
	recursive bool
	selector  string
	offline   bool
	config    string
	provider  *oneOf
	detailed  bool
	output    *oneOf
}

func planCommand(w world) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Show what a manifest would change, before it is applied",
		Long: "Show which steps the controller would take for the Services of a manifest, and what is wrong with their options.\n" +
			"It is the controller's own code that plans; nothing is changed anywhere.\n\n" +
			"With a cluster, the API server fills in the manifest by a dry run with your rights, and the plan starts from what\n" +
			"the live Service asks for, at the addresses it shows. What a backend really holds is known to the controller\n" +
			"alone. Without a kubeconfig, or by --offline, the plan starts from nothing; pools are those of --config, and\n" +
			"EndpointSlices and Nodes in the same files are taken for the cluster's. Other objects are passed over.\n\n" +
			"✗ marks what is refused, and is counted at the end; ! marks what is to be known. -o wide adds the whole load\n" +
			"balancer that is asked for, with its members and their weights.\n\n" +
			"The exit code is 0 also when there are problems; with --detailed-exitcode it is 2 when there are steps.\n\n" +
			"-o json and yaml print a list of kind PlanList (" + listVersion + "). Each item has namespace, name, provider, summary,\n" +
			"problems, notes and steps (verb, kind, port, member, changes). Fields are added to it, never renamed or removed.",
		Example: "  fairlead plan -f web.yaml\n  fairlead plan -R -f deploy/ -l tier=edge --offline --provider openstack\n  kustomize build . | fairlead plan -f - --detailed-exitcode",
		Args:    noArgs(),
	}
	o := planOptions{cluster: clusterFlags(cmd), provider: &oneOf{}}
	for _, p := range annotation.Providers() {
		o.provider.words = append(o.provider.words, string(p))
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "`file` or folder with manifests; - is the standard input; may be given again")
	f.BoolVarP(&o.recursive, "recursive", "R", false, "read folders with the folders in them")
	f.StringVarP(&o.selector, "selector", "l", "", "only the Services of the files with these `labels`")
	f.BoolVar(&o.offline, "offline", false, "plan without a cluster")
	f.StringVar(&o.config, "config", "", "the controller's configuration `file`, for its pools and default provider")
	f.Var(o.provider, "provider", "who serves Services that do not say so (default: the configuration's, else local)")
	f.BoolVar(&o.detailed, "detailed-exitcode", false, "end with exit code 2 when there are steps")
	o.output = outputFlag(cmd, "wide", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if len(o.files) == 0 {
			return usage("name the manifest: %s plan -f FILE", w.program)
		}
		return runPlan(cmd.Context(), w, o)
	}
	return cmd
}

func runPlan(ctx context.Context, w world, o planOptions) error {
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return usage("--selector: %w", err)
	}
	m, err := readManifests(w, o.files, o.recursive)
	if err != nil {
		return err
	}
	m.services = slices.DeleteFunc(m.services, func(f fileService) bool { return !selector.Matches(labels.Set(f.svc.Labels)) })
	c, err := readConfig(o.config)
	if err != nil {
		return err
	}
	plans, err := makePlans(ctx, w, o, m, c)
	if err != nil {
		return err
	}
	return printPlans(w, o, m, plans)
}

// readConfig reads the controller's configuration; without a file it is the default.
func readConfig(name string) (config.Config, error) {
	if name == "" {
		return config.New(), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return config.Config{}, fmt.Errorf("opening the configuration: %w", err)
	}
	defer f.Close()
	c, err := config.Parse(f)
	if err != nil {
		return config.Config{}, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

func makePlans(ctx context.Context, w world, o planOptions, m manifest, c config.Config) ([]planned, error) {
	a, err := clusterFor(w, o)
	if err != nil {
		return nil, err
	}
	if a != nil {
		return plansWith(ctx, &online{access: a, manifest: m, provider: firstOf(o.provider.value, c.DefaultProvider)})
	}
	alone, err := newOffline(m, o, c)
	if err != nil {
		return nil, err
	}
	var plans []planned
	for _, f := range m.services {
		plans = append(plans, alone.plan(f))
	}
	return plans, nil
}

// clusterFor opens the cluster; nil: the plan is to be made without one.
func clusterFor(w world, o planOptions) (*access, error) {
	if o.offline {
		return nil, nil
	}
	a, err := w.open(*o.cluster)
	if errors.Is(err, kube.ErrNoCluster) {
		fmt.Fprintln(w.Err, "No cluster is configured, so the plan is made without one.")
		return nil, nil
	}
	return a, err
}

func plansWith(ctx context.Context, o *online) ([]planned, error) {
	var plans []planned
	for _, f := range o.manifest.services {
		p, err := o.plan(ctx, f)
		if err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	return plans, nil
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
