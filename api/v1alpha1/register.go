package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The group and version of this package's resources.
const (
	Group   = "fairlead.dev"
	Version = "v1alpha1"
)

// SchemeGroupVersion returns the group and version of this package's resources.
func SchemeGroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: Version}
}

// AddToScheme makes the types of this package known to a scheme. The scheme
// must not be in use by others meanwhile. The error is always nil; the
// signature is that of apimachinery's scheme builders.
func AddToScheme(s *runtime.Scheme) error {
	gv := SchemeGroupVersion()
	s.AddKnownTypes(gv,
		&ServiceRecord{}, &ServiceRecordList{},
		&AddressReservation{}, &AddressReservationList{},
	)
	metav1.AddToGroupVersion(s, gv)
	return nil
}
