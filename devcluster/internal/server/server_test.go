package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseAccount(t *testing.T) {
	cases := map[string]struct {
		reason, text string
		want         Account
		bad          bool
	}{
		"Pair":        {reason: "a namespace and a name", text: "a/b", want: Account{Namespace: "a", Name: "b"}},
		"Name":        {reason: "there is no namespace to assume", text: "b", bad: true},
		"NoNamespace": {reason: "an empty namespace is none", text: "/b", bad: true},
		"NoName":      {reason: "an empty name is none", text: "a/", bad: true},
		"Three":       {reason: "a path is no account", text: "a/b/c", bad: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseAccount(tc.text)
			if got != tc.want || (err != nil) != tc.bad {
				t.Errorf("got %+v, %v; want %+v, bad %v: %s", got, err, tc.want, tc.bad, tc.reason)
			}
			if err == nil && got.String() != tc.text {
				t.Errorf("printed %q, want %q", got, tc.text)
			}
		})
	}
}

func TestAuditPolicyNamesTheAccounts(t *testing.T) {
	got := auditPolicyFor([]Account{{Namespace: "a", Name: "b"}, {Namespace: "c", Name: "d"}})
	want := "  users:\n  - system:serviceaccount:a:b\n  - system:serviceaccount:c:d\n- level: None\n"
	if !strings.HasSuffix(got, want) {
		t.Errorf("policy %q does not end in %q", got, want)
	}
}

func TestLockIsForOne(t *testing.T) {
	t.Chdir(t.TempDir())
	first, err := lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(); !errors.Is(err, ErrRunning) || !strings.Contains(err.Error(), "process ") {
		t.Errorf("got %v, want that a process runs there", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lock()
	if err != nil {
		t.Fatalf("after its holder left: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestListenTakesTheLastPort(t *testing.T) {
	t.Chdir(t.TempDir())
	anyPort := netip.MustParseAddrPort("127.0.0.1:0")
	take := func() net.Listener {
		l, err := listen(anyPort)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	first := take()
	other := take()
	if first.Addr().String() == other.Addr().String() {
		t.Error("one port was given twice")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if again := take(); again.Addr().String() != other.Addr().String() {
		t.Errorf("took %s, want the last port, which is free: %s", again.Addr(), other.Addr())
	}
}

func TestPart(t *testing.T) {
	broken := errors.New("broken")
	cases := map[string]struct {
		reason string
		run    func(context.Context) error
		ready  func(context.Context) error
		want   error
		text   string
	}{
		"Ready": {
			reason: "what is ready at once needs no tick",
			run:    func(ctx context.Context) error { <-ctx.Done(); return nil },
			ready:  func(context.Context) error { return nil },
		},
		"Fails": {
			reason: "a part that fails ends the wait with its error",
			run:    func(context.Context) error { return broken },
			ready:  func(context.Context) error { return errors.New("not yet") },
			want:   broken, text: "running it",
		},
		"FailsWhileAsked": {
			reason: "a question to a part that fails is cut short",
			run:    func(context.Context) error { return broken },
			ready:  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			want:   broken, text: "running it",
		},
		"Ends": {
			reason: "a part that just ends is a failure, too",
			run:    func(context.Context) error { return nil },
			ready:  func(context.Context) error { return errors.New("not yet") },
			text:   "ended by itself",
		},
		"TooLate": {
			reason: "the last answer says what was missing",
			run:    func(ctx context.Context) error { <-ctx.Done(); return nil },
			ready:  func(context.Context) error { return errors.New("not yet") },
			want:   context.DeadlineExceeded, text: "not yet",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				p := startPart(ctx, "it", tc.run)
				defer p.stop(time.Minute)
				err := p.await(ctx, "it", tc.ready)
				if (err != nil) != (tc.text != "") || tc.want != nil && !errors.Is(err, tc.want) {
					t.Fatalf("got %v, want %v: %s", err, tc.want, tc.reason)
				}
				if err != nil && !strings.Contains(err.Error(), tc.text) {
					t.Errorf("error %q lacks %q: %s", err, tc.text, tc.reason)
				}
			})
		})
	}
}

func TestPartOutlivesTheContextOfItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := startPart(ctx, "it", func(ctx context.Context) error { <-ctx.Done(); return nil })
		cancel()
		synctest.Wait()
		select {
		case <-p.done:
			t.Error("it ended with that context; parts are stopped in order")
		default:
		}
		p.stop(time.Minute)
		select {
		case <-p.done:
		default:
			t.Error("it goes on after its stop")
		}
	})
}

func TestPartThatHangsIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := startPart(t.Context(), "it", func(context.Context) error { <-release; return nil })
		before := time.Now()
		p.stop(time.Minute)
		if waited := time.Since(before); waited != time.Minute {
			t.Errorf("waited %s for a part that hangs, want a minute", waited)
		}
		close(release)
		<-p.done
	})
}
