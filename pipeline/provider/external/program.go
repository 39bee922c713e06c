package external

import (
	"context"
	"os"
	"strings"

	"extraction-experiment/internal/proc"
)

// program is a peer that runs as child processes.
type program struct {
	pool *proc.Pool
	line string
}

func newProgram(cfg Config) (peer, error) {
	pool, err := proc.New(proc.Config{
		Line: strings.TrimSpace(cfg.Target), Dir: cfg.Dir, Env: cfg.Env, Processes: cfg.Concurrency,
		MaxLine: cfg.MaxAnswer, Accept: checkAnswer, Stderr: cfg.Stderr,
	})
	if err != nil {
		return nil, err
	}
	return &program{pool: pool, line: proc.Shown(cfg.Target, append(os.Environ(), cfg.Env...))}, nil
}

func (p *program) ask(ctx context.Context, request []byte) ([]byte, error) {
	answer, err := p.pool.Call(ctx, request)
	if err != nil {
		return nil, classify(ctx, err)
	}
	return answer, nil
}

func (p *program) target() string { return p.line }

func (p *program) reached() bool { return true }

func (p *program) Close() error { return p.pool.Close() }
