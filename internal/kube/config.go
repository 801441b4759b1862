package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// LoadConfig finds the cluster as kubectl does: by the file named, else by
// $KUBECONFIG, else by ~/.kube/config, else from inside a pod.
func LoadConfig(kubeconfig, context string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w; name a kubeconfig file with --kubeconfig", err)
	}
	return config, nil
}

// ParseSelector reads a label selector; an empty text selects everything and
// yields nil.
func ParseSelector(text string) (labels.Selector, error) {
	if text == "" {
		return nil, nil
	}
	s, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("reading label selector %q: %w", text, err)
	}
	return s, nil
}
