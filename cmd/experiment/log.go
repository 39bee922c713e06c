package main

import (
	"io"
	"log/slog"

	"extraction-experiment/internal/cli"
)

// newLog makes the log of a command on standard error.
func newLog(w io.Writer, level, form string) (*slog.Logger, error) {
	var at slog.Level
	if err := at.UnmarshalText([]byte(level)); err != nil {
		return nil, cli.Usage("--log-level: %q is none of debug, info, warn, error", level)
	}
	options := &slog.HandlerOptions{Level: at}
	switch form {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, cli.Usage("--log-format: %q is neither text nor json", form)
}
