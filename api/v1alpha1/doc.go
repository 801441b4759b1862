// Package v1alpha1 holds the resources that Fairlead keeps its memory in: what
// it last accepted and wrote for a Service, and which addresses it holds back
// after a release. They are plain values and live in Fairlead's own namespace,
// so that who may write Services cannot write them. The package decides
// nothing, and everything that can be derived from Services is not in it.
//
// +groupName=fairlead.dev
// +kubebuilder:object:generate=true
package v1alpha1
