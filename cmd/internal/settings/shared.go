package settings

import (
	"fmt"
	"io"
	"log/slog"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
)

// NoWords refuses leftover words of a command that takes none.
func NoWords(c *urfave.Context) error {
	if c.Args().Present() {
		return cli.Usage("%s takes no argument, got %q", c.Command.Name, c.Args().First())
	}
	return nil
}

// JSONFlag is --json.
func JSONFlag() urfave.Flag {
	return &urfave.BoolFlag{Name: "json", Usage: "print JSON on standard output", DisableDefaultText: true}
}

// DatasetFlag is --dataset of a command that finds a run by its name.
func DatasetFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "dataset", Aliases: []string{"d"}, Usage: "`NAME` of the dataset, where runs of several have the same name"}
}

// LogFlags are those of a command that has no settings.
func LogFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "log-level", Value: "warn", Usage: "`LEVEL` is debug, info, warn or error"},
		&urfave.StringFlag{Name: "log-format", Value: "text", Usage: "`FORM` is text or json"},
	}
}

// NewLog makes the log of a command on standard error.
func NewLog(w io.Writer, level, form string) (*slog.Logger, error) {
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

// ModeUsage is the help of --langfuse-mode.
const ModeUsage = "insist on `MODE` of Langfuse, v3, v4 or v4-dual: an error where the server is found not to have it (default: found out)"

// ModeFlag is --langfuse-mode of a command that has no settings.
func ModeFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "langfuse-mode", Usage: fmt.Sprintf("%s [$%s]", ModeUsage, connect.EnvMode)}
}

// InMode is the environment with what ModeFlag says.
func InMode(c *urfave.Context, getenv func(string) string) (func(string) string, error) {
	if !c.IsSet("langfuse-mode") {
		return getenv, nil
	}
	mode := c.String("langfuse-mode")
	if _, err := langfuse.ParseMode(mode); err != nil {
		return nil, cli.Usage("--langfuse-mode: %w", err)
	}
	return connect.InMode(mode, getenv), nil
}
