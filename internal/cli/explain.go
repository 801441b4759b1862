package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlead-lb/fairlead/api/annotation"
)

func explainCommand(w world) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [OPTION]",
		Short: "Explain an option of a Service",
		Long: "Say what an option of a Service does, which values it takes, and which provider honours it.\n\n" +
			"OPTION is a neutral name (proxy-protocol), an annotation key, or any alias of it, also\n" +
			"spec.loadBalancerIP. Without one, all are listed.",
		Example: "  fairlead explain\n  fairlead explain proxy-protocol\n  fairlead explain loadbalancer.openstack.org/keep-floatingip",
		Args:    atMost(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return optionNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				fmt.Fprint(w.Out, annotation.ExplainAll())
				return nil
			}
			o, ok := optionOf(args[0])
			if !ok {
				return unknownOption(w, args[0])
			}
			fmt.Fprint(w.Out, annotation.Explain(o))
			return nil
		},
	}
}

// optionOf finds an option also by the field of the spec that asks for it.
func optionOf(typed string) (annotation.Option, bool) {
	for _, o := range annotation.Table() {
		if typed != "" && o.SpecField == typed {
			return o, true
		}
	}
	return annotation.Lookup(typed)
}

func optionNames() []string {
	var names []string
	for _, o := range annotation.Table() {
		names = append(names, string(o.Name))
	}
	return names
}

func unknownOption(w world, typed string) error {
	words := optionNames()
	for _, o := range annotation.Table() {
		words = append(words, o.Keys()...)
	}
	if near := annotation.Nearest(typed, words); near != "" {
		return fmt.Errorf("nobody knows the option %q; did you mean %q?", typed, near)
	}
	return fmt.Errorf("nobody knows the option %q; \"%s explain\" lists those that are known", typed, w.program)
}
