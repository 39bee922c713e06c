package main

import (
	"io"
	"log/slog"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/internal/cli"
)

// logFlags are those of a command that has no settings.
func logFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "log-level", Value: "warn", Usage: "`LEVEL` is debug, info, warn or error"},
		&urfave.StringFlag{Name: "log-format", Value: "text", Usage: "`FORM` is text or json"},
	}
}

// flaggedLog makes the log that they ask for.
func flaggedLog(c *urfave.Context, env cli.Env) (*slog.Logger, error) {
	return newLog(env.Stderr, c.String("log-level"), c.String("log-format"))
}

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
