//go:build linux

package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/fairlead-lb/fairlead/internal/kube"
)

// TestRightsAreListed compares the lists of rights that the audit log is judged
// by with the roles that are shipped, so that each right is either needed by a
// test or explained.
func TestRightsAreListed(t *testing.T) {
	listed := rights()
	for what := range unneeded() {
		listed = append(listed, what)
	}
	granted := append(granted(t, "../../deploy/rbac/clusterrole.yaml"), granted(t, "../../deploy/rbac/role.yaml")...)
	for _, what := range granted {
		if !slices.Contains(listed, what) {
			t.Errorf("the right to %s is granted, and neither needed nor explained", what)
		}
	}
	for _, what := range listed {
		if !slices.Contains(granted, what) {
			t.Errorf("the right to %s is listed, and not granted", what)
		}
	}
}

// granted lists the rights of the controller's role in a file.
func granted(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if role.Name != "fairlead-controller" {
			continue
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				if rule.APIGroups[0] != "" {
					resource += "." + rule.APIGroups[0]
				}
				for _, verb := range rule.Verbs {
					out = append(out, verb+" "+resource)
				}
			}
		}
	}
	return out
}

// TestSecureMetrics: metrics are for those who may read them, and the API server
// says who that is.
func TestSecureMetrics(t *testing.T) {
	p := prepare(t, nil)
	q := prepare(t, settings{"metrics": settings{"address": p.metrics, "secure": true}})
	q.run(t)
	t.Cleanup(func() { q.stop(t) })
	config, err := kube.LoadConfig(q.suite.Account, "")
	if err != nil {
		t.Fatal(err)
	}
	token := config.BearerToken
	if token == "" {
		text, err := os.ReadFile(config.BearerTokenFile)
		if err != nil {
			t.Fatal(err)
		}
		token = string(text)
	}
	// The certificate is self-signed; it is not what is tried here.
	browser := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for name, tc := range map[string]struct {
		reason string
		token  string
		want   int
	}{
		"nobody":                  {"who does not say who it is gets nothing", "", http.StatusUnauthorized},
		"somebody_without_rights": {"the controller itself may not read metrics", token, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			eventually(t, tc.reason, func() error {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+p.metrics+"/metrics", http.NoBody)
				if err != nil {
					return err
				}
				if tc.token != "" {
					request.Header.Set("Authorization", "Bearer "+tc.token)
				}
				response, err := browser.Do(request)
				if err != nil {
					return err
				}
				defer func() { _ = response.Body.Close() }()
				_, _ = io.Copy(io.Discard, response.Body)
				if response.StatusCode != tc.want {
					return fmt.Errorf("the answer is %s", response.Status)
				}
				return nil
			})
		})
	}
}
