package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairlead-lb/fairlead/api/annotation"
)

// Fingerprint identifies what a Service asks for: its spec and those of its
// annotations that are read. Services have no metadata.generation, so this is
// how "the controller has acted on the present spec" can be told: it writes the
// fingerprint it acted on to the annotation fairlead.dev/observed.
func Fingerprint(svc *corev1.Service) string {
	asked := map[string]string{}
	for _, o := range annotation.Table() {
		if o.Direction == annotation.Out {
			continue
		}
		for _, key := range o.Keys() {
			if value, ok := svc.Annotations[key]; ok {
				asked[key] = value
			}
		}
	}
	// A Service's spec and a map of texts always encode, with sorted keys.
	spec, err := json.Marshal(svc.Spec)
	if err != nil {
		return ""
	}
	texts, err := json.Marshal(asked)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append(append(spec, '\n'), texts...))
	return hex.EncodeToString(sum[:8])
}
