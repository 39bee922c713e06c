package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/flags"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse/embedded"
)

func serveCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:         "serve",
		Usage:        "keep the embedded Langfuse of this folder running, for other programs",
		UsageText:    "experiment serve [--port N]",
		OnUsageError: flags.UsageError,
		Flags: []urfave.Flag{
			&urfave.IntFlag{Name: "port", Aliases: []string{"p"}, Value: connect.DefaultPort, Usage: "`N` is the port on the loopback address; 0 takes a free one"},
		},
		Action: func(c *urfave.Context) error {
			if err := noWords(c); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context, os.Interrupt, syscall.SIGTERM)
			defer stop()
			return connect.Serve(ctx, c.Int("port"), !c.IsSet("port"), func(url string) { greet(env, url) })
		},
	}
}

// greet says how to reach the server, in lines that can be pasted.
func greet(env cli.Env, url string) {
	fmt.Fprintf(env.Stdout, `The Langfuse API of this folder. Interrupt to stop.

export LANGFUSE_BASE_URL=%s
export LANGFUSE_PUBLIC_KEY=%s
export LANGFUSE_SECRET_KEY=%s
`, url, embedded.DefaultPublicKey, embedded.DefaultSecretKey)
}
