package main

import (
	"fmt"
	"os/signal"

	urfave "github.com/urfave/cli/v2"

	"extraction-experiment/cmd/internal/connect"
	"extraction-experiment/cmd/internal/runs"
	"extraction-experiment/cmd/internal/settings"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse/embedded"
)

func serveCommand(env cli.Env) *urfave.Command {
	return &urfave.Command{
		Name:      "serve",
		Usage:     "show the runs of this folder in a browser, and keep its Langfuse running for other programs",
		UsageText: "experiment serve [--port N] [--mode v4|v4-dual|v3]",
		Description: "The pages list the runs of this folder, show and compare them, and show the traces of the embedded\n" +
			"Langfuse; they only read, and ask for no key. The server behaves as Langfuse 4 unless --mode says else. To see how a program copes with a\n" +
			"bad server, slow it down or let requests fail: a failed request may have been carried out.",
		Flags: []urfave.Flag{
			&urfave.IntFlag{Name: "port", Aliases: []string{"p"}, Value: connect.DefaultPort, Usage: "`N` is the port on the loopback address; 0 takes a free one"},
			&urfave.StringFlag{Name: "mode", Value: string(embedded.ModeV4), Usage: "`MODE` is the Langfuse to behave as: v4, v4-dual or v3"},
			&urfave.DurationFlag{Name: "latency", Usage: "each answer takes this `TIME` longer, such as 100ms"},
			&urfave.Float64Flag{Name: "fail", Usage: "this `SHARE` of all requests fails, from 0 to 1"},
			&urfave.IntFlag{Name: "rate-limit", Usage: "`N` is how many requests a minute each kind of route takes before it answers 429"},
		},
		Action: func(c *urfave.Context) error {
			if err := settings.NoWords(c); err != nil {
				return err
			}
			play := embedded.Config{Mode: embedded.Mode(c.String("mode")), Faults: embedded.Faults{
				Latency: c.Duration("latency"), Fail: c.Float64("fail"), RateLimit: c.Int("rate-limit")}}
			if err := play.Validate(); err != nil {
				return cli.Usage("%w", err)
			}
			ctx, stop := signal.NotifyContext(c.Context, cli.EndSignals()...)
			defer stop()
			return connect.Serve(ctx, c.Int("port"), !c.IsSet("port"), play, runs.Pages, func(url string) { greet(env, url) })
		},
	}
}

// greet says how to reach the server, in lines that can be pasted.
func greet(env cli.Env, url string) {
	fmt.Fprintf(env.Stdout, `The runs of this folder: %s/
Its Langfuse API is at the same address. Interrupt to stop.

export LANGFUSE_BASE_URL=%s
export LANGFUSE_PUBLIC_KEY=%s
export LANGFUSE_SECRET_KEY=%s
`, url, url, embedded.DefaultPublicKey, embedded.DefaultSecretKey)
}
