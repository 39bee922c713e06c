package main

import (
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"extraction-experiment/internal/cli"
	"extraction-experiment/seed"
)

// bar shows on a terminal how far seeding is; elsewhere it shows nothing.
type bar struct {
	pool  *mpb.Progress
	now   *mpb.Bar
	phase seed.Phase
}

func newBar(env cli.Env, quiet bool) *bar {
	b := &bar{}
	if env.Terminal() > 0 && !quiet {
		b.pool = mpb.New(mpb.WithOutput(env.Stderr), mpb.WithWidth(40), mpb.WithAutoRefresh())
	}
	return b
}

// progress draws one step.
func (b *bar) progress(p seed.Progress) {
	if b.pool == nil {
		return
	}
	if b.now == nil || p.Phase != b.phase {
		b.end()
		b.phase = p.Phase
		b.now = b.pool.AddBar(int64(p.Total),
			mpb.PrependDecorators(decor.Name(string(p.Phase)+" ")),
			mpb.AppendDecorators(decor.CountersNoUnit("%d/%d")))
	}
	b.now.SetTotal(int64(p.Total), false)
	b.now.SetCurrent(int64(p.Done))
}

func (b *bar) end() {
	if b.now != nil {
		b.now.Abort(false)
	}
}

func (b *bar) close() {
	if b.pool == nil {
		return
	}
	b.end()
	b.pool.Wait()
}
