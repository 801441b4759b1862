package testenv

import (
	"runtime"
	"testing"
)

// recorder is a testing.TB that notes how a test ended.
type recorder struct {
	testing.TB
	skipped, failed bool
}

func (r *recorder) Helper()              {}
func (r *recorder) Skipf(string, ...any) { r.skipped = true; runtime.Goexit() }
func (r *recorder) Fatalf(string, ...any) {
	r.failed = true
	runtime.Goexit()
}

func TestRequire(t *testing.T) {
	cases := map[string]struct {
		reason                string
		present               bool
		promise               string
		skipped, failed, went bool
	}{
		"Present":         {reason: "what is there is used", present: true, went: true},
		"PresentPromised": {reason: "a kept promise changes nothing", present: true, promise: "1", went: true},
		"Absent":          {reason: "a developer's machine may lack it", skipped: true},
		"AbsentPromised":  {reason: "a promised program that is missing must not look green", promise: "1", failed: true},
		"AbsentDenied":    {reason: "only the value 1 is a promise", promise: "0", skipped: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv(RequireVariable, tc.promise)
			rec := &recorder{TB: t}
			went := make(chan bool, 1)
			done := make(chan struct{})
			go func() {
				defer close(done)
				Require(rec, "a program", tc.present)
				went <- true
			}()
			<-done
			if rec.skipped != tc.skipped || rec.failed != tc.failed || (len(went) == 1) != tc.went {
				t.Errorf("skipped %v, failed %v, went on %v; want %v, %v, %v: %s",
					rec.skipped, rec.failed, len(went) == 1, tc.skipped, tc.failed, tc.went, tc.reason)
			}
		})
	}
}
