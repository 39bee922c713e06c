package main

import (
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/cache"
	"extraction-experiment/pipeline/provider"
	"extraction-experiment/pipeline/provider/recorded"
)

// limitsConfig is what the settings say of how a model may be asked.
type limitsConfig struct {
	rpm, tpm, retries int
	cache             string
	usd               float64
	tokens            int
	concurrency       int
	timeout           time.Duration // of an item
	getenv            func(string) string
	// limiters are those that the runs of a sweep share, by model; nil for one run.
	limiters map[string]*limit.Limiter
}

// limited reports whether anything was asked for that only a model has.
func (c limitsConfig) limited() bool {
	return c.rpm > 0 || c.tpm > 0 || c.cache != "" || c.usd > 0 || c.tokens > 0
}

func (p *problems) limits(s settings) limitsConfig {
	c := limitsConfig{retries: p.count("retries", s.text("retries"), 0, 100), cache: s.text("cache")}
	bound := func(flag string) int {
		if text := s.text(flag); text != "" {
			return p.count(flag, text, 1, math.MaxInt32)
		}
		return 0
	}
	c.rpm, c.tpm, c.tokens = bound("rpm"), bound("tpm"), bound("budget-tokens")
	if text := s.text("budget-usd"); text != "" {
		usd, err := strconv.ParseFloat(text, 64)
		if err != nil || !(usd > 0) || math.IsInf(usd, 0) {
			p.add("--budget-usd: %q is not a number above 0", text)
		}
		c.usd = usd
	}
	return c
}

// asker is a model within its limits, with what is to be asked of them later.
type asker struct {
	pipeline.Model
	waits  *waits           // nil for a recording
	remote pipeline.Model   // under the cache; nil for a recording
	budget *pipeline.Budget // nil without a bound
	cache  *cache.Folder    // nil without one
}

// waits passes on why requests wait, to whom is named when the run begins.
type waits struct {
	provider string
	to       atomic.Pointer[progress]
}

func (w *waits) tell(wait pipeline.Wait) {
	if view := w.to.Load(); view != nil {
		view.waiting(w.provider, wait)
	}
}

// follow has the progress of the run told of what waits.
func (a asker) follow(view *progress) {
	if a.waits != nil {
		a.waits.to.Store(view)
	}
}

// within puts a model under limits, a budget and a cache. A request may take
// half of the time of an item, so that one that hangs is sent again.
// A recording has no limits.
func within(opened provider.Opened, known catalogue, c limitsConfig) (asker, error) {
	priced := pipeline.Priced(opened.Model, opened.Info.Model, known.price)
	if opened.Info.Pipeline == recorded.Name {
		return asker{Model: priced}, nil
	}
	limiter, err := c.limiter(opened)
	if err != nil {
		return asker{}, err
	}
	a := asker{waits: &waits{provider: opened.Provider}}
	if c.usd > 0 || c.tokens > 0 {
		a.budget, err = pipeline.NewBudget(pipeline.BudgetConfig{USD: c.usd, Tokens: int64(c.tokens), Model: opened.Info.Model, Prices: known.price})
		if err != nil {
			return asker{}, err
		}
	}
	a.Model, err = pipeline.Limited(pipeline.LimitedConfig{
		Model: priced, Limiter: limiter, Budget: a.budget, Tries: c.retries + 1, Timeout: c.timeout / 2, Waits: a.waits.tell,
	})
	a.remote = a.Model
	if err == nil && c.cache != "" {
		a.cache, err = cache.Open(c.cache)
		if err == nil {
			a.Model = cache.Cached(a.Model, a.cache, cache.Source{Provider: opened.Provider, Endpoint: addressOf(opened.Provider, c.getenv), Model: opened.Info.Model})
		}
	}
	return a, err
}

// limiter is that of the model, which runs of a sweep have in common: what one of
// them learned about the provider holds for the next.
func (c limitsConfig) limiter(opened provider.Opened) (*limit.Limiter, error) {
	key := opened.Provider + " " + opened.Info.Model
	if known := c.limiters[key]; known != nil {
		return known, nil
	}
	limiter, err := limit.New(limit.Config{Most: c.concurrency, RequestsPerMinute: int64(c.rpm), TokensPerMinute: int64(c.tpm)})
	if err == nil && c.limiters != nil {
		c.limiters[key] = limiter
	}
	return limiter, err
}

// spent books an outcome that the run, or its sweep, had already; nil without a budget.
func (a asker) spent() func(outcome.Outcome) {
	if a.budget == nil {
		return nil
	}
	return func(o outcome.Outcome) {
		a.budget.Book(o.CostUSD, o.Usage, o.Assumed)
		if j := o.Judging; j != nil {
			a.budget.Book(j.CostUSD, j.Usage, j.Assumed)
		}
	}
}

// notKept says which answers could not be kept, after the run, which that does
// not harm; it is empty if all were.
func (a asker) notKept() string {
	if a.cache == nil || a.cache.Err() == nil {
		return ""
	}
	return a.cache.Err().Error() + "; the run itself is not harmed"
}
