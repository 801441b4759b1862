package kube

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLibraryLog(t *testing.T) {
	cases := map[string]struct {
		reason  string
		level   slog.Level
		message string
		want    string
	}{
		"GracefulStop": {reason: "an ordinary stop is no error", level: slog.LevelInfo, message: stopLine},
		"Debugging":    {reason: "who debugs sees it all", level: slog.LevelDebug, message: stopLine, want: "level=DEBUG"},
		"RealError":    {reason: "other errors stay errors", level: slog.LevelInfo, message: "cannot", want: "level=ERROR"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			h := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: tc.level})
			l := libraryLog{h}.WithAttrs([]slog.Attr{slog.Int("a", 1)}).WithGroup("g")
			if r := slog.NewRecord(time.Time{}, slog.LevelError, tc.message, 0); l.Handle(t.Context(), r) != nil {
				t.Error("it cannot be logged")
			}
			if got := out.String(); !strings.Contains(got, tc.want) || (tc.want == "") != (got == "") {
				t.Errorf("%s: logged %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
