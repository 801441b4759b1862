//go:build linux

package demo

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestChooseAddress(t *testing.T) {
	cases := map[string]struct {
		reason string
		have   []string
		want   string
	}{
		"Private": {"a private address is preferred: fewer can reach the pods", []string{"127.0.0.1/8", "198.51.100.4/24", "10.0.0.4/24", "192.168.0.4/24"}, "10.0.0.4"},
		"Public":  {"any address serves", []string{"127.0.0.1/8", "::1/128", "198.51.100.4/24"}, "198.51.100.4"},
		"OnLo":    {"an address of lo that is no loopback address serves", []string{"127.0.0.1/8", "10.99.0.1/32"}, "10.99.0.1"},
		"Unfit":   {"Kubernetes refuses loopback and link-local endpoints; pods here are IPv4", []string{"127.0.0.1/8", "169.254.3.4/16", "::1/128", "2001:db8::1/64"}, ""},
		"None":    {"a machine may have no address", nil, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := chooseAddress(tc.have)
			if tc.want == "" {
				if !errors.Is(err, errNoAddress) {
					t.Errorf("chose %s, %v: %s", got, err, tc.reason)
				}
				return
			}
			if err != nil || got.String() != tc.want {
				t.Errorf("chose %s, %v; want %s: %s", got, err, tc.want, tc.reason)
			}
		})
	}
}

// TestQuoted has a shell read what would be shown.
func TestQuoted(t *testing.T) {
	for _, word := range []string{"plain", "", "two words", "it's", `{"a":"$b"}`, "a*b", "x=y", "~", "new\nline", "-l"} {
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+quoted(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("a shell reads %q as %q, %v", quoted(word), out, err)
		}
	}
	if got := commandLine("kubectl", []string{"apply", "-f", "examples/hello/service.yaml"}); got != "kubectl apply -f examples/hello/service.yaml" {
		t.Errorf("an ordinary command is shown as %q", got)
	}
}

func TestGate(t *testing.T) {
	var out strings.Builder
	g := &gate{out: &out}
	write := func(text string) {
		t.Helper()
		if _, err := io.WriteString(g, text); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	write("two\n")
	if out.Len() != 0 {
		t.Errorf("a closed gate let %q through", out.String())
	}
	if err := g.open(); err != nil {
		t.Fatal(err)
	}
	write("three\n")
	if got := out.String(); got != "one\ntwo\nthree\n" {
		t.Errorf("wrote %q", got)
	}
}

func TestUntil(t *testing.T) {
	errNotYet := errors.New("not yet")
	errNever := errors.New("never")
	cases := map[string]struct {
		reason string
		try    func(n int) error
		cancel time.Duration
		tries  int
		want   error
		text   string
	}{
		"AtOnce":  {reason: "what is there needs no waiting", try: func(int) error { return nil }, tries: 1},
		"Later":   {reason: "what comes is waited for", try: func(n int) error { return ifBelow(n, 4, errNotYet) }, tries: 4},
		"Lasting": {reason: "what cannot come is not waited for", try: func(int) error { return lasting{errNever} }, tries: 1, want: errNever, text: "never"},
		"TooLate": {reason: "patience ends with what was missing", try: func(int) error { return errNotYet }, tries: 10, want: errNotYet, text: "waiting 950ms for it: not yet"},
		"Cut":     {reason: "an interrupt ends all waiting", try: func(int) error { return errNotYet }, cancel: 250 * time.Millisecond, tries: 3, want: context.Canceled, text: "context canceled"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.cancel > 0 {
					time.AfterFunc(tc.cancel, cancel)
				}
				tries := 0
				err := until(ctx, 950*time.Millisecond, "it", func() error { tries++; return tc.try(tries) })
				if !errors.Is(err, tc.want) || tc.want != nil && err.Error() != tc.text {
					t.Errorf("got %v, want %v: %s", err, tc.want, tc.reason)
				}
				if tries != tc.tries {
					t.Errorf("tried %d times, want %d: %s", tries, tc.tries, tc.reason)
				}
			})
		})
	}
}

func ifBelow(n, limit int, err error) error {
	if n < limit {
		return err
	}
	return nil
}

func TestClaimPool(t *testing.T) {
	first, err := claimPool(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.release()
	second, err := claimPool(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer second.release()
	if first.prefix == second.prefix {
		t.Errorf("two demos at once both got %s", first.prefix)
	}
}

func TestMakeFolder(t *testing.T) {
	dir := t.TempDir()
	made, err := makeFolder(filepath.Join(dir, "new", "one"))
	if err != nil || made != filepath.Join(dir, "new", "one") {
		t.Errorf("made %q, %v", made, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if made, err := makeFolder(dir); err == nil {
		t.Errorf("took %s, which holds files, to be removed at the end", made)
	}
}
