package v1alpha1

import (
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddressReservation holds an address back for the Service that had it, so
// that a Service that is deleted and created again gets its address back. Its
// name is the address, an IPv6 one expanded and with "-" for ":".
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=fres,categories=fairlead
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.spec.address`
// +kubebuilder:printcolumn:name="For-Namespace",type=string,JSONPath=`.spec.for.namespace`
// +kubebuilder:printcolumn:name="For-Name",type=string,JSONPath=`.spec.for.name`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.spec.until`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`,priority=1
type AddressReservation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec says which address is held for whom. There is no status.
	// +required
	Spec AddressReservationSpec `json:"spec"`
}

// AddressReservationSpec says which address is held for whom, and how long.
//
// +kubebuilder:validation:XValidation:rule="self.until >= self.since",message="until is not before since"
type AddressReservationSpec struct {
	// Address is the address in the canonical text form (RFC 5952).
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="the address is an IP address"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a reservation stays with its address"
	Address string `json:"address"`

	// For is the Service that had the address and gets it back.
	// +required
	For ReservedFor `json:"for"`

	// Since is when the address was released. A Service that was created
	// before and asks for the address was already waiting, and gets it.
	// +required
	Since metav1.Time `json:"since"`

	// Until is when the reservation ends and the address is free again.
	// +required
	Until metav1.Time `json:"until"`

	// Pool is the name of the address pool that the address is from.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Pool string `json:"pool,omitempty"`

	// Reason says in one CamelCase word why the address is held, such as
	// "Released".
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Reason string `json:"reason,omitempty"`
}

// ReservedFor names the Service that an address is held for. It has no uid:
// the Service that comes back is another object of the same name.
type ReservedFor struct {
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
}

// AddressReservationList is a list of reservations.
//
// +kubebuilder:object:root=true
type AddressReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	// Items are the reservations, in no particular order.
	Items []AddressReservation `json:"items"`
}

// ReservationName returns the name of an address's reservation: the address
// itself for IPv4 ("127.77.0.4"), and the expanded form with "-" for ":" for
// IPv6 ("fd00-0000-0000-0000-0000-0000-0000-0001"), which are valid object
// names (RFC 1123 subdomain). An IPv4-mapped address is named like its IPv4
// address, and a zone is no part of the name. The name of the zero Addr is
// empty, which is no valid object name.
func ReservationName(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return strings.ReplaceAll(a.Unmap().WithZone("").StringExpanded(), ":", "-")
}
