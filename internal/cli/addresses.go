package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
)

// The states of an address.
const (
	addressHeld     = "held"
	addressReserved = "reserved"
)

// address is one address in a list: an item of AddressList.
type address struct {
	Address string `json:"address"`
	// State is held or reserved.
	State string `json:"state"`
	// Namespace and Name are of the Service that has the address, or gets it back.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Pool      string `json:"pool,omitempty"`
	// Since is when the record was made, or when the address was released.
	Since time.Time `json:"since"`
	// Until is when a reservation ends.
	Until *time.Time `json:"until,omitempty"`
}

func addressesCommand(w world) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "addresses",
		Short: "List the addresses that Services hold, or that are reserved for them",
		Long: "List every address that a Service holds, and every one that is reserved for the Service that had it before;\n" +
			"with -n, those of one namespace; with -l, those of Services that are there and have these labels.\n\n" +
			"It needs the rights to list servicerecords and addressreservations (fairlead.dev) in Fairlead's own namespace,\n" +
			"and with -l the right to list Services.\n\n" +
			"-o json and yaml print a list of kind AddressList (" + listVersion + "). Each item has address, state (held or reserved),\n" +
			"namespace, name, pool, since and, when it is reserved, until. Fields are added to it, never renamed or removed.",
		Example: "  fairlead addresses\n  fairlead addresses -n shop -l tier=edge -o json",
		Args:    noArgs(),
	}
	o, which := clusterFlags(cmd), selectionFlags(cmd)
	output := outputFlag(cmd, "wide", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := which.parse(nil); err != nil {
			return err
		}
		a, err := w.open(*o)
		if err != nil {
			return err
		}
		items, err := readAddresses(cmd.Context(), a)
		if err != nil {
			return err
		}
		namespace := o.Namespace // the context's is none to restrict a list of all
		if which.everywhere {
			namespace = ""
		}
		if items, err = which.addresses(cmd.Context(), a, items, namespace); err != nil {
			return err
		}
		return printAddresses(w, output.value, items)
	}
	return cmd
}

// addresses keeps those of a namespace, all when it is empty, and of the
// Services with the labels that are selected, if any are.
func (s *selection) addresses(ctx context.Context, a *access, items []address, namespace string) ([]address, error) {
	if namespace != "" {
		items = slices.DeleteFunc(items, func(i address) bool { return i.Namespace != namespace })
	}
	if s.selector == "" {
		return items, nil
	}
	found, err := a.Services(ctx, namespace, s.parsed)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(items, func(i address) bool {
		return !slices.ContainsFunc(found, func(svc corev1.Service) bool { return svc.Namespace == i.Namespace && svc.Name == i.Name })
	}), nil
}

func readAddresses(ctx context.Context, a *access) ([]address, error) {
	records, err := a.Records(ctx)
	if kube.IsUnknownKind(err) {
		return nil, fmt.Errorf("%w; Fairlead's resources are not installed in this cluster", err)
	}
	if err != nil {
		return nil, err
	}
	reservations, err := a.Reservations(ctx)
	if err != nil {
		return nil, err
	}
	return addressesOf(records, reservations), nil
}

// addressesOf lists held and reserved addresses, by address, then Service.
func addressesOf(records []v1alpha1.ServiceRecord, reservations []v1alpha1.AddressReservation) []address {
	var out []address
	for _, r := range records {
		for _, text := range r.Spec.Addresses {
			out = append(out, address{
				Address: text, State: addressHeld, Namespace: r.Spec.ServiceRef.Namespace, Name: r.Spec.ServiceRef.Name,
				Pool: r.Spec.Pool, Since: r.CreationTimestamp.UTC(),
			})
		}
	}
	for _, r := range reservations {
		out = append(out, address{
			Address: r.Spec.Address, State: addressReserved, Namespace: r.Spec.For.Namespace, Name: r.Spec.For.Name,
			Pool: r.Spec.Pool, Since: r.Spec.Since.UTC(), Until: new(r.Spec.Until.UTC()),
		})
	}
	slices.SortStableFunc(out, func(a, b address) int {
		return cmp.Or(compareAddresses(a.Address, b.Address), cmp.Compare(a.State, b.State),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// compareAddresses orders texts as addresses; what is none comes first.
func compareAddresses(a, b string) int {
	x, _ := netip.ParseAddr(a)
	y, _ := netip.ParseAddr(b)
	return cmp.Or(x.Compare(y), cmp.Compare(a, b))
}

func printAddresses(w world, format string, items []address) error {
	if format == "json" || format == "yaml" {
		text, err := encode(format, "AddressList", items)
		if err != nil {
			return err
		}
		fmt.Fprint(w.Out, text)
		return nil
	}
	if len(items) == 0 {
		fmt.Fprintln(w.Err, "No address is held or reserved.")
		return nil
	}
	fmt.Fprint(w.Out, addressTable(items, format == "wide", w.now()))
	return nil
}

func addressTable(items []address, wide bool, now time.Time) string {
	head := []string{"ADDRESS", "STATE", "FOR", "SINCE", "UNTIL"}
	if wide {
		head = append(head, "POOL")
	}
	rows := [][]string{head}
	for _, a := range items {
		until := "<none>"
		if a.Until != nil {
			until = "over"
			if left := a.Until.Sub(now); left > 0 {
				until = "in " + age(now, *a.Until)
			}
		}
		row := []string{a.Address, a.State, a.Namespace + "/" + a.Name, age(a.Since, now), until}
		if wide {
			row = append(row, orNone(a.Pool))
		}
		rows = append(rows, row)
	}
	return table(rows)
}
