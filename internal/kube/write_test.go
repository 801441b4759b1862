package kube

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// clientOf returns a client of a cluster in memory whose calls pass through
// funcs.
func clientOf(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *Client {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&corev1.Service{}).
		WithInterceptorFuncs(funcs).Build()
	log := slog.New(slog.DiscardHandler)
	out := &Client{options: Options{Namespace: "fairlead-system", Log: log}, client: c}
	out.events = newEvents(c, log)
	return out
}

// indexed returns a client whose EndpointSlices are found by Service.
func indexed(t *testing.T, objects ...client.Object) *Client {
	t.Helper()
	c := clientOf(t, interceptor.Funcs{})
	c.client = fake.NewClientBuilder().WithScheme(c.client.Scheme()).WithObjects(objects...).
		WithIndex(&discoveryv1.EndpointSlice{}, sliceIndex, func(o client.Object) []string {
			return []string{o.GetLabels()[discoveryv1.LabelServiceName]}
		}).Build()
	return c
}

// patched is what one patch of a status subresource was.
type patched struct {
	Type    types.PatchType
	Body    string
	Force   bool
	Manager string
}

// recording returns funcs that note status patches and answer with an error.
func recording(into *[]patched, answer error) interceptor.Funcs {
	return interceptor.Funcs{SubResourcePatch: func(_ context.Context, _ client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		var all client.SubResourcePatchOptions
		all.ApplyOptions(opts)
		body, err := p.Data(o)
		if err != nil || sub != "status" {
			return errors.Join(errors.New("patching "+sub), err)
		}
		*into = append(*into, patched{p.Type(), string(body), all.Force != nil && *all.Force, all.FieldManager})
		return answer
	}}
}

func TestSetFinalizers(t *testing.T) {
	cases := map[string]struct {
		reason string
		set    []string
		want   string
	}{
		"Set":  {"a merge patch of the status subresource that holds the resourceVersion", []string{"a", "b"}, `{"metadata":{"finalizers":["a","b"],"resourceVersion":"7"}}`},
		"None": {"none is an empty list; null would leave them", nil, `{"metadata":{"finalizers":[],"resourceVersion":"7"}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []patched
			c := clientOf(t, recording(&got, nil))
			if err := c.SetFinalizers(t.Context(), balanced(), tc.set); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]patched{{types.MergePatchType, tc.want, false, FieldManager}}, got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestSetFinalizersOnOldView: the patch of an old view is refused, and says so.
func TestSetFinalizersOnOldView(t *testing.T) {
	c := clientOf(t, interceptor.Funcs{}, balanced(func(s *corev1.Service) { s.ResourceVersion = "" }))
	current, err := c.service(t.Context(), model.Key{Namespace: "shop", Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	old := current.DeepCopy()
	current.Labels = map[string]string{"changed": "meanwhile"}
	if err := c.client.Update(t.Context(), current); err != nil {
		t.Fatal(err)
	}
	if err := c.SetFinalizers(t.Context(), old, nil); !errors.Is(err, ErrMovedOn) {
		t.Errorf("with an old resourceVersion: %v, want ErrMovedOn", err)
	}
}

func TestApplyStatusWrites(t *testing.T) {
	var got []patched
	c := clientOf(t, recording(&got, nil))
	said := sayable()
	wrote, err := c.ApplyStatus(t.Context(), balanced(), said, noon())
	if err != nil || !wrote || len(got) != 1 {
		t.Fatalf("wrote %v, %v, %d patches; want one", wrote, err, len(got))
	}
	if got[0].Type != types.ApplyPatchType || !got[0].Force || got[0].Manager != FieldManager {
		t.Errorf("patch %+v, want a forced apply of ours", got[0])
	}
	wrote, err = c.ApplyStatus(t.Context(), after(t, balanced(), said), said, noon())
	if err != nil || wrote || len(got) != 1 {
		t.Errorf("what is said already: wrote %v, %v, %d patches; want none more", wrote, err, len(got))
	}
}

func TestClearStatus(t *testing.T) {
	var got []patched
	c := clientOf(t, recording(&got, nil))
	if err := c.ClearStatus(t.Context(), balanced(owning("occm", "Update", `{"f:status":{}}`))); err != nil || len(got) != 0 {
		t.Errorf("where we own nothing: %v, patches %+v; want none", err, got)
	}
	if err := c.ClearStatus(t.Context(), balanced(owning(FieldManager, "Apply", `{"f:status":{}}`))); err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"shop","uid":"uid-1"},"status":{}}`
	if len(got) != 1 || got[0].Body != want || !got[0].Force {
		t.Errorf("patches %+v, want %s", got, want)
	}
}

func TestMovedOn(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	invalid := func(paths ...*field.Path) error {
		var list field.ErrorList
		for _, p := range paths {
			list = append(list, field.Forbidden(p, "no"))
		}
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web", list)
	}
	uid, guard := field.NewPath("metadata", "uid"), field.NewPath("metadata", "finalizers")
	ingress := field.NewPath("status", "loadBalancer", "ingress")
	cases := map[string]struct {
		reason string
		err    error
		want   bool
	}{
		"Gone":        {"the object is gone", apierrors.NewNotFound(services, "web"), true},
		"Conflict":    {"the resourceVersion has changed", apierrors.NewConflict(services, "web", errors.New("x")), true},
		"Replaced":    {"another object of the same name", invalid(uid), true},
		"Deleting":    {"no finalizer may be added any more", invalid(guard), true},
		"OtherType":   {"no load balancer any more", invalid(ingress), true},
		"Several":     {"all of it at once", invalid(uid, guard, ingress), true},
		"BadHostname": {"what we wrote is wrong, and will be the next time", invalid(ingress.Index(0).Child("hostname")), false},
		"Mixed":       {"part of what we wrote is wrong", invalid(uid, ingress.Index(0).Child("hostname")), false},
		"NoCause":     {"a refusal without a cause", invalid(), false},
		"Forbidden":   {"a right is missing", apierrors.NewForbidden(services, "web", errors.New("x")), false},
		"Timeout":     {"the server is busy", apierrors.NewTimeoutError("x", 1), false},
		"Other":       {"no answer at all", errors.New("connection refused"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := movedOn(tc.err)
			if errors.Is(got, ErrMovedOn) != tc.want || !errors.Is(got, tc.err) {
				t.Errorf("%s: %v, want ErrMovedOn %v", tc.reason, got, tc.want)
			}
		})
	}
}

// TestWritesSayThatTheObjectMovedOn: each write on an old view wraps ErrMovedOn.
func TestWritesSayThatTheObjectMovedOn(t *testing.T) {
	var got []patched
	c := clientOf(t, recording(&got, apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("x"))))
	owned := balanced(owning(FieldManager, "Apply", `{"f:status":{}}`))
	_, apply := c.ApplyStatus(t.Context(), balanced(), sayable(), noon())
	for name, err := range map[string]error{
		"SetFinalizers": c.SetFinalizers(t.Context(), balanced(), nil), "ApplyStatus": apply, "ClearStatus": c.ClearStatus(t.Context(), owned),
	} {
		if !errors.Is(err, ErrMovedOn) {
			t.Errorf("%s: %v, want ErrMovedOn", name, err)
		}
	}
}

func spec(uid types.UID) v1alpha1.ServiceRecordSpec {
	return v1alpha1.ServiceRecordSpec{ServiceRef: v1alpha1.ServiceRef{Namespace: "shop", Name: "web", UID: uid}, Provider: "local"}
}

func TestRecords(t *testing.T) {
	writes := 0
	c := clientOf(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			writes++
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			writes++
			return c.Update(ctx, o, opts...)
		},
	})
	ctx, key := t.Context(), model.Key{Namespace: "shop", Name: "web"}
	if err := c.PutRecord(ctx, nil, spec("uid-1")); err != nil {
		t.Fatal(err)
	}
	if err := c.PutRecord(ctx, nil, spec("uid-2")); !errors.Is(err, ErrMovedOn) {
		t.Errorf("creating one that exists: %v, want ErrMovedOn", err)
	}
	first, err := c.record(ctx, key)
	if err != nil || first == nil || first.Spec.ServiceRef.UID != "uid-1" {
		t.Fatalf("read %+v, %v", first, err)
	}
	before := writes
	same := spec("uid-1")
	same.Ports, same.Written = []v1alpha1.Port{}, map[string]string{}
	if err := c.PutRecord(ctx, first, same); err != nil || writes != before {
		t.Errorf("putting what stands there: %v, %d writes; want none", err, writes-before)
	}
	if err := c.PutRecord(ctx, first, spec("uid-2")); err != nil {
		t.Fatal(err)
	}
	if err := c.PutRecord(ctx, first, spec("uid-3")); !errors.Is(err, ErrMovedOn) {
		t.Errorf("updating an old view: %v, want ErrMovedOn", err)
	}
	list, err := c.Records(ctx)
	if err != nil || len(list) != 1 || list[0].Name != "shop.web" || list[0].Spec.ServiceRef.UID != "uid-2" {
		t.Errorf("records %+v, %v", list, err)
	}
	for range 2 {
		if err := c.DeleteRecord(ctx, first); err != nil {
			t.Errorf("deleting: %v", err)
		}
	}
	if gone, err := c.record(ctx, key); gone != nil || err != nil {
		t.Errorf("after deletion: %+v, %v", gone, err)
	}
}

func TestReservations(t *testing.T) {
	c := clientOf(t, interceptor.Funcs{})
	ctx := t.Context()
	put := func(name string) {
		err := c.PutReservation(ctx, "203.0.113.7", v1alpha1.AddressReservationSpec{
			Address: "203.0.113.7", For: v1alpha1.ReservedFor{Namespace: "shop", Name: name},
			Since: Now(noon()), Until: Now(noon()),
		})
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.Reservations(ctx)
		if err != nil || len(list) != 1 || list[0].Spec.For.Name != name {
			t.Errorf("reservations %+v, %v; want one for %s", list, err, name)
		}
	}
	put("first")
	put("second")
	for range 2 {
		if err := c.DeleteReservation(ctx, "203.0.113.7"); err != nil {
			t.Errorf("deleting: %v", err)
		}
	}
	if list, err := c.Reservations(ctx); err != nil || len(list) != 0 {
		t.Errorf("reservations %+v, %v; want none", list, err)
	}
}
