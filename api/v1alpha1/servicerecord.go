package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ServiceRecord is what Fairlead remembers about one Service. It is written
// before the first change in a backend and removed after the last one, so it
// outlives its Service until clean-up is done. Its name is "<namespace>.<name>"
// of the Service.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=frec,categories=fairlead
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="Addresses",type=string,JSONPath=`.spec.addresses`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.class`,priority=1
// +kubebuilder:printcolumn:name="UID",type=string,JSONPath=`.spec.serviceRef.uid`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name == self.spec.serviceRef.__namespace__ + '.' + self.spec.serviceRef.name",message="a record is named <namespace>.<name> of its Service"
type ServiceRecord struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is everything that is remembered. There is no status: a change of
	// the record is one write.
	// +required
	Spec ServiceRecordSpec `json:"spec"`
}

// ServiceRecordSpec is what is remembered about one Service.
type ServiceRecordSpec struct {
	// ServiceRef names the Service. Its uid changes when the Service was
	// deleted and created again under the same name.
	// +required
	ServiceRef ServiceRef `json:"serviceRef"`

	// Provider is the name of the provider that serves the Service, such as
	// "local". It says who cleans up, whatever the Service's class says now.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Provider string `json:"provider"`

	// Class is the Service's loadBalancerClass when it was accepted; empty for
	// a Service without one, which Fairlead took as the default.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Class string `json:"class,omitempty"`

	// Addresses are the addresses that the Service holds, in the order of
	// preference, at most one a family, in the canonical text form (RFC 5952).
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="self.all(a, isIP(a))",message="every address is an IP address"
	Addresses []string `json:"addresses,omitempty"`

	// Pool is the name of the address pool that the addresses are from; empty
	// when the backend or the Service chose them outside every pool.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Pool string `json:"pool,omitempty"`

	// Share says with whom the addresses may be shared. Without a key they
	// belong to this Service alone.
	// +optional
	Share Share `json:"share,omitzero"`

	// Ports are the listeners that hold their place on the addresses, sorted
	// by port, then protocol.
	// +optional
	// +listType=map
	// +listMapKey=protocol
	// +listMapKey=port
	Ports []Port `json:"ports,omitempty"`

	// AcceptedOptions are the texts last accepted, by the option's neutral
	// name without prefix. An option whose new text is refused is held at
	// this one.
	// +optional
	AcceptedOptions map[string]string `json:"acceptedOptions,omitempty"`

	// Written are the values that Fairlead, or the controller it took over
	// from, wrote to the Service, by annotation key. An equal value on the
	// Service is output and never read as a request.
	// +optional
	Written map[string]string `json:"written,omitempty"`

	// Backend is what the provider needs to find its objects again: their ids,
	// and the fingerprint of what was applied to them. Only the provider
	// knows the keys.
	// +optional
	Backend map[string]string `json:"backend,omitempty"`
}

// ServiceRef names one Service, as it was when it was last acted on.
//
// +kubebuilder:validation:XValidation:rule="self.__namespace__ == oldSelf.__namespace__ && self.name == oldSelf.name",message="a record stays with its Service"
type ServiceRef struct {
	// Namespace is the Service's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// Name is the Service's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// UID is the Service's uid; a Service of the same name with another uid is
	// another owner.
	// +required
	UID types.UID `json:"uid"`
}

// Share says with whom an address may be shared.
type Share struct {
	// Key is the sharing key that the Service asked with; Services of an equal
	// key may share an address.
	// +optional
	Key string `json:"key,omitempty"`

	// Namespace limits the sharing to Services of this namespace; empty: those
	// of any namespace (the rule of MetalLB's allow-shared-ip).
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// Backend is the text that has to be equal for two Services to share an
	// address: under externalTrafficPolicy Local the pod selector.
	// +optional
	Backend string `json:"backend,omitempty"`
}

// Port is one listener's place on an address.
type Port struct {
	// Protocol is the transport protocol.
	// +required
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol string `json:"protocol"`

	// Port is the port number.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// ServiceRecordList is a list of records.
//
// +kubebuilder:object:root=true
type ServiceRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// Items are the records, in no particular order.
	Items []ServiceRecord `json:"items"`
}

// RecordName returns the name of the record of a Service:
// "<namespace>.<name>". It is unique, because a namespace has no dot (RFC 1123
// label), and at most 127 characters.
func RecordName(namespace, name string) string { return namespace + "." + name }
