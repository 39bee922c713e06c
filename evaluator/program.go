package evaluator

import (
	"context"

	"extraction-experiment/internal/proc"
)

// program runs a process for each case.
type program struct{ cfg Config }

func (p program) ask(ctx context.Context, c Case) (Verdict, error) {
	request, err := c.encode()
	if err != nil {
		return Verdict{}, err
	}
	raw, err := proc.Once(ctx, proc.Config{
		Command: p.cfg.Script, Dir: p.cfg.Dir, Env: p.cfg.Env, Withhold: true, Handed: p.cfg.Handed, MaxLine: p.cfg.MaxOutput,
	}, request)
	if err != nil {
		return Verdict{}, ofProgram(err)
	}
	return parseVerdict(raw)
}
