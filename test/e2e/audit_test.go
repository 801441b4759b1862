//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// request is what the audit log says of one request (audit.k8s.io/v1 Event).
type request struct {
	Stage     string
	Verb      string
	UserAgent string
	ObjectRef struct {
		Resource, Namespace, Name, Subresource, APIGroup string
	}
	ResponseStatus struct {
		Code    int
		Message string
	}
	RequestURI string
}

// what names the right that a request needed, as in a Role.
func (r request) what() string {
	resource := r.ObjectRef.Resource
	if resource == "" {
		resource = r.RequestURI
	}
	if r.ObjectRef.Subresource != "" {
		resource += "/" + r.ObjectRef.Subresource
	}
	if r.ObjectRef.APIGroup != "" {
		resource += "." + r.ObjectRef.APIGroup
	}
	return r.Verb + " " + resource
}

func (r request) writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// requests reads the finished requests of the audit log from an offset, and
// returns where it ended. A line that is not whole yet is left.
func requests(path string, offset int64) ([]request, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, offset, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, offset, err
	}
	var out []request
	reader := bufio.NewReader(f)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, offset, nil
		}
		if err != nil {
			return nil, offset, err
		}
		offset += int64(len(line))
		var r request
		if err := json.Unmarshal(bytes.TrimSpace(line), &r); err != nil {
			return nil, offset, fmt.Errorf("reading the audit log: %w", err)
		}
		if r.Stage == "" || r.Stage == "ResponseComplete" || r.Stage == "Panic" {
			out = append(out, r)
		}
	}
}

// watermark returns the present end of the audit log.
func (s space) watermark(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(s.suite.AuditLog)
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// writesSince counts what the controller wrote, of which the filter says yes.
func (s space) writesSince(t *testing.T, mark int64, filter func(request) bool) map[string]int {
	t.Helper()
	list, _, err := requests(s.suite.AuditLog, mark)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, r := range list {
		if r.writes() && filter(r) {
			counts[r.what()]++
		}
	}
	return counts
}

// here selects requests about this namespace, its records among them.
func (s space) here(r request) bool {
	return r.ObjectRef.Namespace == s.name || strings.HasPrefix(r.ObjectRef.Name, s.name+".")
}

// about selects requests about one Service: it, its record and its events.
func (s space) about(r request, service string) bool {
	name := r.ObjectRef.Name
	return s.here(r) && (name == service || name == s.name+"."+service || strings.HasPrefix(name, service+"."))
}

// onService selects writes to Services of this namespace.
func (s space) onService(r request) bool {
	return r.ObjectRef.Namespace == s.name && r.ObjectRef.Resource == "services"
}

// rights are what the controller asks of the API server in a run of all tests.
// With unneeded they are what its roles permit.
func rights() []string {
	return []string{
		"create addressreservations.fairlead.dev",
		"create events",
		"create leases.coordination.k8s.io",
		"create servicerecords.fairlead.dev",
		"create subjectaccessreviews.authorization.k8s.io",
		"create tokenreviews.authentication.k8s.io",
		"delete addressreservations.fairlead.dev",
		"delete servicerecords.fairlead.dev",
		"get leases.coordination.k8s.io",
		"patch events",
		"patch services/status",
		"update leases.coordination.k8s.io",
		"update servicerecords.fairlead.dev",
		"watch addressreservations.fairlead.dev",
		"watch endpointslices.discovery.k8s.io",
		"watch namespaces",
		"watch nodes",
		"watch servicerecords.fairlead.dev",
		"watch services",
	}
}

// unneeded are the rights that no test needs, and why they are granted.
func unneeded() map[string]string {
	const (
		streams = "an API server without streaming lists (WatchList) is asked for a list"
		single  = "kubectl get of one object, and reads past the cache"
		leases  = "client-go updates a Lease; a role that permits writing one permits patching it"
	)
	return map[string]string{
		"list addressreservations.fairlead.dev": streams, "list endpointslices.discovery.k8s.io": streams, "list namespaces": streams,
		"list nodes": streams, "list servicerecords.fairlead.dev": streams, "list services": streams,
		"get addressreservations.fairlead.dev": single, "get endpointslices.discovery.k8s.io": single, "get namespaces": single,
		"get nodes": single, "get servicerecords.fairlead.dev": single, "get services": single,
		"patch leases.coordination.k8s.io": leases, "patch servicerecords.fairlead.dev": "our records are updated as a whole",
		"update addressreservations.fairlead.dev": "reservations are patched", "patch addressreservations.fairlead.dev": "",
	}
}

// checkAudit is the verdict on everything that the controller asked for in this
// run: nothing was refused, nothing unexpected was asked, and after all tests
// every right was needed.
func checkAudit(path string, everything bool) error {
	list, _, err := requests(path, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	used := map[string]int{}
	var faults []error
	for _, r := range list {
		if r.ResponseStatus.Code == 403 && !strings.Contains(r.ResponseStatus.Message, "being terminated") {
			faults = append(faults, fmt.Errorf("the API server refused %s %s: %s", r.Verb, r.RequestURI, r.ResponseStatus.Message))
		}
		if r.ObjectRef.Resource != "" {
			used[r.what()]++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(used)) {
		if _, granted := unneeded()[what]; !granted && !slices.Contains(rights(), what) {
			faults = append(faults, fmt.Errorf("the controller asked to %s, %d times", what, used[what]))
		}
	}
	for _, what := range rights() {
		if everything && used[what] == 0 {
			faults = append(faults, fmt.Errorf("no test needed the right to %s", what))
		}
	}
	if len(faults) > 12 {
		faults = append(faults[:12], fmt.Errorf("and %d more", len(faults)-12))
	}
	return errors.Join(faults...)
}
