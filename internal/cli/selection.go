package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// selection says which Services a command is about, other than by their names.
type selection struct {
	// all is the flag --all of the commands that have it.
	all        bool
	everywhere bool
	selector   string
	parsed     labels.Selector
}

// selectionFlags adds -A and -l.
func selectionFlags(cmd *cobra.Command) *selection {
	s := &selection{parsed: labels.Everything()}
	cmd.Flags().BoolVarP(&s.everywhere, "all-namespaces", "A", false, "those of all namespaces")
	cmd.Flags().StringVarP(&s.selector, "selector", "l", "", "only those with these `labels`")
	return s
}

// parse reads the flags; names are the arguments that name Services.
func (s *selection) parse(names []string) error {
	var err error
	if s.parsed, err = labels.Parse(s.selector); err != nil {
		return usage("--selector: %w", err)
	}
	if len(names) > 0 && s.given() {
		return usage("name Services, svc/NAME, or select them by flags, not both")
	}
	return nil
}

// given tells whether any flag selects Services.
func (s *selection) given() bool { return s.all || s.everywhere || s.selector != "" }

// namespace is the one to look in, empty for all.
func (s *selection) namespace(a *access) string {
	if s.everywhere {
		return ""
	}
	return a.Namespace()
}

// services reads the Services that are named or, without names, Fairlead's own
// that are selected in a namespace, or in all when it is empty.
func (s *selection) services(ctx context.Context, a *access, names []string, namespace string) ([]corev1.Service, error) {
	if len(names) == 0 {
		return ourServices(ctx, a, namespace, s.parsed)
	}
	found := make([]corev1.Service, 0, len(names))
	for _, name := range names {
		svc, err := find(ctx, a, name)
		if err != nil {
			return nil, err
		}
		found = append(found, *svc)
	}
	return found, nil
}

// none says that no Service is meant.
func (s *selection) none(a *access) string {
	with := ""
	if s.selector != "" {
		with = " with these labels"
	}
	if namespace := s.namespace(a); namespace != "" {
		return fmt.Sprintf("No Service%s in namespace %s is Fairlead's; try -A for all namespaces.", with, namespace)
	}
	return fmt.Sprintf("No Service%s in any namespace is Fairlead's.", with)
}
