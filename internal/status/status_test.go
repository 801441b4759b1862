package status

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// TestMain declares -update, which must exist before the arguments are parsed.
func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the golden files instead of comparing with them")
	os.Exit(m.Run())
}

func updating() bool { return flag.Lookup("update").Value.String() == "true" }

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

func tcp(n uint16) model.Port { return model.Port{Protocol: model.TCP, Number: n} }

// listener returns a listener with members "address weight".
func listener(p model.Port, members ...model.Member) model.Listener {
	return model.Listener{Port: p, Pool: model.Pool{Members: members}}
}

func member(address string, weight int) model.Member {
	return model.Member{Address: netip.MustParseAddrPort(address), Weight: weight}
}

// serving is the input of a Service at which all is well.
func serving(edits ...func(*Input)) Input {
	in := Input{
		Want: model.Balancer{
			Key: model.Key{Namespace: "default", Name: "web"}, Addresses: addrs("203.0.113.7"),
			Listeners: []model.Listener{listener(tcp(80), member("10.0.0.1:8080", 1)), listener(tcp(443), member("10.0.0.1:8443", 1))},
		},
		Ports:     []model.Port{tcp(80), tcp(443)},
		Published: []Ingress{{IP: netip.MustParseAddr("203.0.113.7")}},
	}
	for _, e := range edits {
		e(&in)
	}
	return in
}

func problem(kind annotation.Kind, message string) annotation.Problem {
	return annotation.Problem{Kind: kind, Message: message}
}

func problems(list ...annotation.Problem) func(*Input) {
	return func(in *Input) { in.Problems = list }
}

func nowhere(in *Input) { in.Want.Addresses, in.Published = nil, nil }

func hold(reason, message string) func(*Input) {
	return func(in *Input) { in.Held, in.Hold = true, Notice{reason, message} }
}

func failed(in *Input) {
	in.Failure = Notice{ReasonBackendError, "Provider local: applying the plan: no route; it is tried again."}
}

type goldenCase struct {
	reason string
	in     Input
}

func goldenCases() map[string]goldenCase {
	refused := model.PortError{Port: tcp(443), Reason: "PortInUse", Message: "203.0.113.7 TCP/443 is in use by default/other; change the port."}
	return map[string]goldenCase{
		"serving":       {"all is well: no warning", serving()},
		"no-endpoints":  {"nobody ready is no fault of the load balancer", serving(func(in *Input) { in.Want.Listeners[0].Pool.Members = nil })},
		"draining-only": {"members that only drain answer nobody new", serving(func(in *Input) { in.Want.Listeners[0].Pool.Members[0].Weight = 0 })},
		"no-listeners": {"a Service whose every port failed", serving(func(in *Input) {
			in.Want.Listeners, in.PortErrors = nil, []model.PortError{{Port: tcp(80), Reason: "NoNodePort", Message: "no node port"}, refused}
		})},
		"dual-stack":       {"both addresses are published", serving(func(in *Input) { in.Want.Addresses = addrs("203.0.113.7", "2001:db8::7") })},
		"proxy-mode":       {"clients in the cluster must not go past the load balancer", serving(func(in *Input) { in.ProxyMode = true })},
		"hostname":         {"a host name stands instead of addresses", serving(func(in *Input) { in.Hostname, in.ProxyMode = "web.example.org", true })},
		"hostname-no-addr": {"a host name is not published before there is an address", serving(nowhere, func(in *Input) { in.Hostname = "web.example.org" })},
		"note":             {"one sentence more", serving(func(in *Input) { in.Note = "No node is eligible." })},
		"listens-elsewhere": {"sockets that differ from the addresses", serving(func(in *Input) {
			in.Observed.Health = []model.PortHealth{{Port: tcp(80), At: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:10080"), netip.MustParseAddrPort("[::1]:10080")}}}
		})},
		"member-down": {"the first member that needs help is named", serving(func(in *Input) {
			in.Observed.Health = []model.PortHealth{{Port: tcp(443), Members: []model.MemberHealth{
				{Address: netip.MustParseAddrPort("10.0.0.1:8443"), State: model.MemberUp},
				{Address: netip.MustParseAddrPort("10.0.0.2:8443"), State: model.MemberDown, Cause: "connection refused."},
			}}}
		})},
		"port-refused":   {"one port fails, every port gets an entry, the others serve", serving(func(in *Input) { in.PortErrors = []model.PortError{refused} })},
		"invalid":        {"the option is named", serving(problems(problem(annotation.Invalid, "fairlead.dev/x: bad.")))},
		"unknown":        {"an unknown key is refused", serving(problems(problem(annotation.Unknown, "fairlead.dev/nope: nobody knows it.")))},
		"not-yet":        {"an option that the provider will honour", serving(problems(problem(annotation.NotYet, "fairlead.dev/x: not yet.")))},
		"conflict":       {"two sources differ: accepted, with a warning", serving(problems(problem(annotation.Conflict, "a wins over b.")))},
		"unmatched":      {"a port that the Service does not have: accepted, with a warning", serving(problems(problem(annotation.Unmatched, "names port x.")))},
		"old-meaning":    {"a value read as its old controller did: accepted, with a warning", serving(problems(problem(annotation.OldMeaning, "read as false.")))},
		"adjusted":       {"a value read more strictly: accepted, with a warning", serving(problems(problem(annotation.Adjusted, "read as 10.0.0.0/8.")))},
		"not-applicable": {"an option without a use is told in the condition, and warns nobody", serving(problems(problem(annotation.NotApplicable, "no use.")))},
		"by-severity": {"problems are told by severity, whatever their order is", serving(problems(
			problem(annotation.NotApplicable, "Fifth."), problem(annotation.Adjusted, "Fourth."), problem(annotation.Conflict, "Third."),
			problem(annotation.Unknown, "Second."), problem(annotation.Invalid, "First."),
		))},
		"blocked":              {"a new Service whose exposure is unclear", serving(nowhere, problems(problem(annotation.Invalid, "fairlead.dev/source-ranges: bad.")), func(in *Input) { in.Blocked = true })},
		"blocked-by-not-yet":   {"it is never accepted, whatever kind blocks it", serving(nowhere, problems(problem(annotation.Adjusted, "odd.")), func(in *Input) { in.Blocked = true })},
		"no-address":           {"pending is explained", serving(nowhere, func(in *Input) { in.Address = Notice{"PoolExhausted", "no free IPv4 address in pool local."} })},
		"another-address":      {"it serves, but not where it was asked to", serving(func(in *Input) { in.Address = Notice{"AddressInUse", "203.0.113.9 is in use; keeps 203.0.113.7"} })},
		"observing":            {"what would be done, and the ingress as it stands", serving(hold(ReasonObserving, "it would apply: 1 to create."), func(in *Input) { in.Want.Addresses = addrs("203.0.113.9") })},
		"paused-steady":        {"paused, and nothing would change", serving(func(in *Input) { in.Held, in.Want.Addresses = true, addrs("203.0.113.7") })},
		"paused-not-published": {"paused, and never published: not now either", serving(func(in *Input) { in.Held, in.Published = true, nil })},
		"failure":              {"what is published stays while it is held", serving(failed)},
		"failure-after-move":   {"an address that is not held any more goes", serving(failed, func(in *Input) { in.Want.Addresses = addrs("203.0.113.9") })},
		"failure-hostname":     {"a host name stays", serving(failed, func(in *Input) { in.Published = []Ingress{{Hostname: "web.example.org"}} })},
		"failure-at-first":     {"nothing is published before the first success", serving(failed, func(in *Input) { in.Published = nil })},
		"rival":                {"the ingress is left to the rival, who is named", serving(func(in *Input) { in.Rival = "occm" })},
	}
}

func reportText(r Report) string {
	var out strings.Builder
	if r.KeepRival {
		out.WriteString("ingress is left to the rival\n")
	}
	for _, i := range r.Ingress {
		fmt.Fprintf(&out, "ingress %s%s proxy=%v", ipText(i.IP), i.Hostname, i.Proxy)
		for _, p := range i.Ports {
			fmt.Fprintf(&out, " %s=%q", p.Port, p.Error)
		}
		out.WriteString("\n")
	}
	for _, c := range r.Conditions {
		fmt.Fprintf(&out, "%s=%v %s: %s\n", c.Type, c.True, c.Reason, c.Message)
	}
	if r.Warning.Set() {
		fmt.Fprintf(&out, "warning %s: %s\n", r.Warning.Reason, r.Warning.Message)
	}
	return out.String()
}

func ipText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// TestReports compares each report with its golden file.
func TestReports(t *testing.T) {
	for name, tc := range goldenCases() {
		t.Run(name, func(t *testing.T) {
			got := "# " + tc.reason + "\n" + reportText(Of(tc.in))
			file := filepath.Join("testdata", name+".txt")
			if updating() {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

// TestEveryReasonIsReported: each reason of this package stands in some golden case.
func TestEveryReasonIsReported(t *testing.T) {
	seen := map[string]bool{}
	for _, tc := range goldenCases() {
		for _, c := range Of(tc.in).Conditions {
			seen[c.Reason] = true
		}
	}
	for _, reason := range []string{
		ReasonAccepted, ReasonInvalidOptions, ReasonUnknownOptions, ReasonOptionsNotYet, ReasonOptionsNotApplicable,
		ReasonOptionsConflict, ReasonOptionsUnmatched, ReasonOptionsOldMeaning, ReasonOptionsAdjusted,
		ReasonProgrammed, ReasonNotAccepted, ReasonObserving, ReasonBackendError, ReasonPortsFailed, ReasonConflict, ReasonAddressNotice,
	} {
		if !seen[reason] {
			t.Errorf("no case has reason %s", reason)
		}
	}
}

// TestEveryKindOfProblemIsTold: no kind of problem is dropped in silence.
func TestEveryKindOfProblemIsTold(t *testing.T) {
	for _, kind := range []annotation.Kind{
		annotation.Invalid, annotation.Unknown, annotation.Unmatched, annotation.Conflict,
		annotation.OldMeaning, annotation.Adjusted, annotation.NotApplicable, annotation.NotYet,
	} {
		if got := Of(serving(problems(problem(kind, "Told.")))).Conditions[0]; got.Message != "Told." {
			t.Errorf("a problem of kind %s is told as %q", kind, got.Message)
		}
	}
}

// TestMessagesFit: whatever there is to say fits an event and is valid UTF-8.
func TestMessagesFit(t *testing.T) {
	long := strings.Repeat("größer als erlaubt ", 100)
	cases := map[string]struct {
		reason string
		in     Input
		want   string
	}{
		"ManyProblems": {
			reason: "what does not fit is counted",
			in: serving(func(in *Input) {
				for i := range 100 {
					in.Problems = append(in.Problems, problem(annotation.Invalid, fmt.Sprintf("Problem number %d is told here.", i)))
				}
			}),
			want: " more)",
		},
		"ManyPorts": {
			reason: "ports as well",
			in: serving(func(in *Input) {
				for i := range uint16(100) {
					in.PortErrors = append(in.PortErrors, model.PortError{Port: tcp(i + 1), Reason: "X", Message: "it cannot be served here"})
				}
			}),
			want: " more)",
		},
		"OneLongProblem": {
			reason: "one sentence that is too long is cut between characters",
			in:     serving(problems(problem(annotation.Invalid, long))),
			want:   "…",
		},
		"LongFailure": {
			reason: "a backend's error may be of any length",
			in:     serving(func(in *Input) { in.Failure = Notice{ReasonBackendError, "x" + long} }),
			want:   "…",
		},
		"LongButBlocked": {
			reason: "the sentence about what is served comes first, so it is never cut off",
			in:     serving(problems(problem(annotation.Invalid, long)), func(in *Input) { in.Blocked = true }),
			want:   "Nothing is served until this is mended. ",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			found := false
			r := Of(tc.in)
			texts := []string{r.Warning.Message}
			for _, c := range r.Conditions {
				texts = append(texts, c.Message)
			}
			for _, text := range texts {
				if len(text) > 1024 || !utf8.ValidString(text) {
					t.Errorf("%s: %d bytes, valid %v: %q", tc.reason, len(text), utf8.ValidString(text), text)
				}
				found = found || strings.Contains(text, tc.want)
			}
			if !found {
				t.Errorf("%s: no text contains %q", tc.reason, tc.want)
			}
		})
	}
}
