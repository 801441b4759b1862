package telemetry

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNewLog(t *testing.T) {
	cases := map[string]struct {
		reason        string
		level, format string
		want          []string
	}{
		"info":    {"debug messages are not for everyday", "info", "text", []string{"level=INFO msg=changed service=shop/web", "level=WARN msg=odd", "level=ERROR msg=broken"}},
		"debug":   {"all of it", "debug", "text", []string{"level=DEBUG msg=detail", "level=INFO msg=changed service=shop/web", "level=WARN msg=odd", "level=ERROR msg=broken"}},
		"warn":    {"only what is wrong", "warn", "text", []string{"level=WARN msg=odd", "level=ERROR msg=broken"}},
		"error":   {"only what is broken", "error", "text", []string{"level=ERROR msg=broken"}},
		"as JSON": {"a log collector reads it", "warn", "json", []string{`WARN odd`, `ERROR broken`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			log, err := NewLog(&out, tc.level, tc.format)
			if err != nil {
				t.Fatal(err)
			}
			log.Debug("detail")
			log.Info("changed", slog.String("service", "shop/web"))
			log.Warn("odd")
			log.Error("broken")
			var got []string
			for line := range strings.Lines(out.String()) {
				got = append(got, withoutTime(t, strings.TrimSpace(line), tc.format))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func withoutTime(t *testing.T, line, format string) string {
	t.Helper()
	if format == "text" {
		_, rest, _ := strings.Cut(line, " ")
		return rest
	}
	var entry struct{ Level, Msg string }
	if err := json.Unmarshal([]byte(line), &entry); err != nil {
		t.Fatalf("line %q is no JSON: %v", line, err)
	}
	return entry.Level + " " + entry.Msg
}

func TestNewLogRefusesAnUnknownLevel(t *testing.T) {
	if _, err := NewLog(&strings.Builder{}, "loud", "text"); err == nil || !strings.Contains(err.Error(), `"loud"`) {
		t.Errorf("got error %v, want one that names the level", err)
	}
}
