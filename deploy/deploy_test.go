// Package deploy holds the manifests. Its tests compare them with what they
// promise: the rights with a list, the pods with the restricted profile, and
// the admission policy with a real API server.
package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/fairlead-lb/fairlead/api/config"
)

// manifest is one document of a file.
type manifest struct {
	file string
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	text              []byte
}

func manifests(t *testing.T, folders ...string) []manifest {
	t.Helper()
	var out []manifest
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no manifests in %s (%v)", folder, err)
		}
		for _, file := range files {
			out = append(out, documents(t, file)...)
		}
	}
	return out
}

func documents(t *testing.T, file string) []manifest {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []manifest
	reader := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	for {
		buffer := make([]byte, len(text)+1)
		n, err := reader.Read(buffer)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		m := manifest{file: file, text: buffer[:n]}
		if err := yaml.Unmarshal(m.text, &m); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if m.Kind != "" {
			out = append(out, m)
		}
	}
}

// object decodes the only manifest of a kind and name, strictly.
func object[T any](t *testing.T, kind, name string) T {
	t.Helper()
	var out T
	all := slices.DeleteFunc(manifests(t, "rbac", "controller"), func(m manifest) bool { return m.Kind != kind || m.Name != name })
	if len(all) != 1 {
		t.Fatalf("%d manifests are a %s called %s, want one", len(all), kind, name)
	}
	if err := yaml.UnmarshalStrict(all[0].text, &out); err != nil {
		t.Fatalf("%s: %v", all[0].file, err)
	}
	return out
}

// TestRightsAreTheList fails when a right is added or lost. A change of this
// list changes what a stolen token can do.
func TestRightsAreTheList(t *testing.T) {
	read := []string{"get", "list", "watch"}
	cases := map[string]struct {
		reason string
		got    []rbacv1.PolicyRule
		want   []rbacv1.PolicyRule
	}{
		"cluster": {
			reason: "outside its namespace the controller reads, patches the status of Services and says what happened",
			got:    object[rbacv1.ClusterRole](t, "ClusterRole", "fairlead-controller").Rules,
			want: []rbacv1.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: read},
				{APIGroups: []string{""}, Resources: []string{"services/status"}, Verbs: []string{"patch"}},
				{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: read},
				{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: read},
				{APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"}, Verbs: read},
				{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
				{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
				{APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}, Verbs: []string{"create"}},
			},
		},
		"own namespace": {
			reason: "one lease by its name, and the controller's own resources",
			got:    object[rbacv1.Role](t, "Role", "fairlead-controller").Rules,
			want: []rbacv1.PolicyRule{
				{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
				{
					APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
					ResourceNames: []string{"fairlead-controller"}, Verbs: []string{"get", "update", "patch"},
				},
				{
					APIGroups: []string{"fairlead.dev"}, Resources: []string{"servicerecords", "addressreservations"},
					Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
				},
			},
		},
		"metrics reader": {
			reason: "who scrapes gets one path",
			got:    object[rbacv1.ClusterRole](t, "ClusterRole", "fairlead-metrics-reader").Rules,
			want:   []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestRightsAreBoundToOneAccount proves that no other role or subject is bound.
func TestRightsAreBoundToOneAccount(t *testing.T) {
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "fairlead-controller", Namespace: "fairlead-system"}}
	bindings := 0
	for _, m := range manifests(t, "rbac", "controller") {
		if m.Kind != "RoleBinding" && m.Kind != "ClusterRoleBinding" {
			continue
		}
		bindings++
		var binding rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
		if err := yaml.UnmarshalStrict(m.text, &binding); err != nil {
			t.Fatalf("%s: %v", m.file, err)
		}
		role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: strings.TrimSuffix(m.Kind, "Binding"), Name: "fairlead-controller"}
		if diff := cmp.Diff(role, binding.RoleRef); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", m.Kind, m.Name, diff)
		}
		if diff := cmp.Diff(want, binding.Subjects); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", m.Kind, m.Name, diff)
		}
	}
	if bindings != 2 {
		t.Errorf("%d bindings, want one for the cluster and one for the own namespace", bindings)
	}
}

// TestPodIsRestricted checks what the restricted Pod Security Standard asks
// for, which the namespace enforces, and what we ask for beyond.
func TestPodIsRestricted(t *testing.T) {
	if level := object[corev1.Namespace](t, "Namespace", "fairlead-system").Labels["pod-security.kubernetes.io/enforce"]; level != "restricted" {
		t.Errorf("the namespace enforces %q", level)
	}
	pod := object[appsv1.Deployment](t, "Deployment", "fairlead-controller").Spec.Template.Spec
	checks := map[string]bool{
		"runs as another user than root": *pod.SecurityContext.RunAsNonRoot && *pod.SecurityContext.RunAsUser == 65532,
		"has the runtime's seccomp":      pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"shares nothing with the host":   !pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
		"has one container":              len(pod.Containers) == 1 && len(pod.InitContainers) == 0,
	}
	for _, v := range pod.Volumes {
		checks["volume "+v.Name+" is a config map"] = v.ConfigMap != nil
	}
	for _, c := range pod.Containers {
		s := c.SecurityContext
		checks["cannot gain rights"] = !*s.AllowPrivilegeEscalation && s.Privileged == nil
		checks["has no capabilities"] = slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(s.Capabilities.Add) == 0
		checks["writes no files"] = *s.ReadOnlyRootFilesystem
		checks["has a memory limit"] = !c.Resources.Limits.Memory().IsZero()
		checks["is not throttled"] = c.Resources.Limits.Cpu().IsZero()
		checks["takes no host port"] = !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 })
		checks["is asked whether it lives"] = c.LivenessProbe.HTTPGet.Path == "/healthz"
		checks["is asked whether it is ready"] = c.ReadinessProbe.HTTPGet.Path == "/readyz"
	}
	for what, ok := range checks {
		if !ok {
			t.Errorf("the pod does not satisfy: %s", what)
		}
	}
}

// TestConfigurationFitsTheManifests proves that the shipped configuration is
// one, and that it names the same things as the other manifests.
func TestConfigurationFitsTheManifests(t *testing.T) {
	cm := object[corev1.ConfigMap](t, "ConfigMap", "fairlead-controller")
	c, err := config.Parse(strings.NewReader(cm.Data["fairlead.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	deployment := object[appsv1.Deployment](t, "Deployment", "fairlead-controller")
	role := object[rbacv1.Role](t, "Role", "fairlead-controller")
	if c.Namespace != deployment.Namespace || c.Namespace != role.Namespace {
		t.Errorf("the records are in %s, the pods in %s and the rights in %s", c.Namespace, deployment.Namespace, role.Namespace)
	}
	if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.ResourceNames, c.LeaderElection.Name) }) {
		t.Errorf("no rule names the lease %s", c.LeaderElection.Name)
	}
	pod := deployment.Spec.Template.Spec
	ports := map[string]string{}
	for _, p := range pod.Containers[0].Ports {
		ports[p.Name] = ":" + strconv.Itoa(int(p.ContainerPort))
	}
	if diff := cmp.Diff(map[string]string{"metrics": c.Metrics.Address, "health": c.Health.Address}, ports); diff != "" {
		t.Errorf("the ports are those of the configuration (-want +got):\n%s", diff)
	}
	if grace := *pod.TerminationGracePeriodSeconds; float64(grace) <= (c.Shutdown.Delay + c.Shutdown.Drain).Seconds() {
		t.Errorf("the pod is killed after %d s, before delay %s and drain %s are over", grace, c.Shutdown.Delay, c.Shutdown.Drain)
	}
	arg := "--config=" + pod.Containers[0].VolumeMounts[0].MountPath + "/fairlead.yaml"
	if !slices.Contains(pod.Containers[0].Args, arg) {
		t.Errorf("the arguments %v do not name the mounted file (%s)", pod.Containers[0].Args, arg)
	}
}

// TestKustomizationIsComplete fails when a new manifest is forgotten there.
func TestKustomizationIsComplete(t *testing.T) {
	text, err := os.ReadFile("kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var k struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(text, &k); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return strings.HasPrefix(file, "testdata/") })
	slices.Sort(k.Resources)
	if diff := cmp.Diff(files, k.Resources); diff != "" {
		t.Errorf("(-files +resources):\n%s", diff)
	}
}
