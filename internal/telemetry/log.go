// Package telemetry is how the process speaks to its operators: the form of its
// log and the names of its metrics. It measures nothing itself and decides
// nothing; what it exports is read from others at the moment it is asked for.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// NewLog returns a log of a level ("debug", "info", "warn", "error") in a
// format ("text", "json").
func NewLog(out io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("reading log level: %w", err)
	}
	options := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(out, options)), nil
	}
	return slog.New(slog.NewTextHandler(out, options)), nil
}
