// Package testenv says what becomes of a test whose surroundings are not there:
// a program that is not installed, a right that the user lacks. It skips the
// test loudly, or fails it where the surroundings are promised. It never looks
// for anything itself and never installs anything.
package testenv

import (
	"os"
	"testing"
)

// RequireVariable is the environment variable that turns every skip of this
// package into a failure when its value is "1". Continuous integration sets
// it, so that a missing package cannot pass for a green run.
const RequireVariable = "FAIRLEAD_TEST_REQUIRE"

// Require lets the test go on if what it needs is present. Otherwise the test
// ends here: skipped, or failed when RequireVariable is set. what completes
// the sentence "this test needs …" and names the remedy, for example
// "haproxy (Debian package haproxy)". Call it from the test's own goroutine.
func Require(t testing.TB, what string, present bool) {
	t.Helper()
	if present {
		return
	}
	if os.Getenv(RequireVariable) == "1" {
		t.Fatalf("this test needs %s, and %s=1 promises it", what, RequireVariable)
	}
	t.Skipf("SKIPPED: this test needs %s; set %s=1 to make that a failure", what, RequireVariable)
}
