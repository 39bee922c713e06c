package system

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"extraction-experiment/configs"
	"extraction-experiment/experiment"
	"extraction-experiment/internal/files"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/workers"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/provider"
)

// Limits say how a model may be asked; 0 is without a limit.
type Limits struct {
	RPM, TPM, Retries int
	Cache             string // a folder of answers; empty keeps none
	USD               float64
	Tokens            int
	Concurrency       int
	Timeout           time.Duration // of an item
	// Limiters are those that the runs of a sweep share, by model and host; nil for one run.
	Limiters map[string]*limit.Limiter
	// Admission, if set, makes the admission of a workers.LimitGroup, which another
	// process has: its limits and its budget hold.
	Admission func(group string) pipeline.Admission
}

// Limited reports whether anything was asked for that only a model has.
func (c Limits) Limited() bool {
	return c.RPM > 0 || c.TPM > 0 || c.Cache != "" || c.USD > 0 || c.Tokens > 0
}

// Model is a model within its limits, with what is to be asked of them later.
type Model struct {
	pipeline.Model
	waits  *atomic.Pointer[waiting] // nil for a recording
	window string                   // the key of its pace in this folder
	// limiter is nil for a recording, and where another process has the limits.
	limiter *limit.Limiter
	remote  pipeline.Model   // under the cache; nil for a recording
	Budget  *pipeline.Budget // nil without a bound
	cache   *pipeline.Cache  // nil without one
	group   string           // its workers.LimitGroup
	own     pipeline.Admission
	limits  Limits
}

// Admission is that of a workers.LimitGroup: the model's own, or one of a worker with
// another key or host, for which the same numbers hold, and the same budget.
func (a Model) Admission(group string) pipeline.Admission {
	if group == a.group {
		return a.own
	}
	return pipeline.NewAdmission(limit.New(a.limits.config(pace{})), a.Budget)
}

// waiting is told why requests to a provider wait.
type waiting = func(provider string, wait pipeline.Wait)

// Follow has somebody told of what waits.
func (a Model) Follow(told waiting) {
	if a.waits != nil {
		a.waits.Store(&told)
	}
}

// within puts a model under limits, a budget and a cache. A request may take
// half of the time of an item, so that one that hangs is sent again.
// A recording has no limits.
func (o Opener) within(opened provider.Opened, known Catalogue, c Limits) (Model, error) {
	priced := pipeline.Priced(opened.Model, opened.Info.Model, known.Price)
	if opened.Info.Pipeline == provider.Recorded {
		return Model{Model: priced}, nil
	}
	group := workers.LimitGroup(opened.Provider+"/"+opened.Info.Model, hostOf(opened.Address), opened.Key.Reveal())
	a := Model{waits: new(atomic.Pointer[waiting]), group: group, limits: c}
	var err error
	if c.Admission != nil {
		a.own = c.Admission(a.group)
	} else if err = a.limit(opened, known); err != nil {
		return Model{}, err
	}
	a.remote = pipeline.Limited(pipeline.LimitedConfig{
		Model: priced, Admission: a.own, Tries: c.Retries + 1, Timeout: c.Timeout / 2,
		Waits: func(wait pipeline.Wait) {
			if told := a.waits.Load(); told != nil {
				(*told)(opened.Provider, wait)
			}
		},
	})
	a.Model = a.remote
	if c.Cache != "" {
		if a.cache, err = pipeline.OpenCache(c.Cache); err == nil {
			source := pipeline.CacheSource{Provider: opened.Provider, Endpoint: opened.Address, Model: opened.Info.Model}
			a.Model = pipeline.Cached(a.remote, a.cache, source)
		}
	}
	return a, err
}

// limit makes the admission of one process. Runs of a sweep have the limiter of a model in
// common: what one of them learned about the provider holds for the next.
func (a *Model) limit(opened provider.Opened, known Catalogue) (err error) {
	a.window = windowOf(opened)
	if a.limiter = a.limits.Limiters[a.window]; a.limiter == nil {
		a.limiter = limit.New(a.limits.config(readWindows()[a.window]))
		if a.limits.Limiters != nil {
			a.limits.Limiters[a.window] = a.limiter
		}
	}
	a.Budget, err = a.limits.budget(opened.Info.Model, known)
	a.own = pipeline.NewAdmission(a.limiter, a.Budget)
	return err
}

// budget is that of a model; nil without a bound.
func (c Limits) budget(model string, known Catalogue) (*pipeline.Budget, error) {
	if c.USD == 0 && c.Tokens == 0 {
		return nil, nil
	}
	return pipeline.NewBudget(pipeline.BudgetConfig{USD: c.USD, Tokens: int64(c.Tokens), Model: model, Prices: known.Price})
}

func (c Limits) config(before pace) limit.Config {
	return limit.Config{
		Most: c.Concurrency, Start: max(0, before.Calls), Latency: max(0, before.Latency),
		RequestsPerMinute: int64(c.RPM), TokensPerMinute: int64(c.TPM),
	}
}

// pace is how many calls at once a model of a provider took at the end of its last run, and
// how long one took, so that the next run need not find it out.
type pace struct {
	Calls   int           `json:"calls"`
	Latency time.Duration `json:"latency_ns"`
}

// windowOf is the key of a model at its address, of which the host counts.
func windowOf(opened provider.Opened) string {
	return strings.TrimSpace(opened.Provider + "/" + opened.Info.Model + " " + hostOf(opened.Address))
}

// hostOf is the host of an address; "" of one that is none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

func windowsPath() string { return filepath.Join(experiment.Folder, "cache", "windows.json") }

// readWindows never fails: what cannot be read is not known.
func readWindows() map[string]pace {
	var all map[string]pace
	raw, err := files.Read(context.Background(), windowsPath(), 1<<20)
	if err != nil || json.Unmarshal(raw, &all) != nil || all == nil {
		return map[string]pace{}
	}
	return all
}

// closing writes the window down, unless it was not learned. One that cannot be written
// costs the next run a moment.
func (a Model) closing() error {
	const enough = 20 // answers
	if a.limiter == nil {
		return nil
	}
	all, state := readWindows(), a.limiter.State()
	before, now := all[a.window], pace{max(1, int(state.Window)), state.Latency}
	if !state.Limited && now.Calls <= max(limit.Start, before.Calls) { // it was not more that was asked for
		now.Calls = before.Calls
	}
	if state.Answers < enough || now.Calls == 0 || now.Calls == before.Calls && now.Latency/2 <= before.Latency && before.Latency/2 <= now.Latency {
		return nil
	}
	all[a.window] = now
	if os.MkdirAll(filepath.Dir(windowsPath()), 0o700) == nil {
		_ = files.Write(windowsPath(), func(out io.Writer) error { return json.NewEncoder(out).Encode(all) })
	}
	return nil
}

// nothing is the end of a system that holds nothing.
func nothing() error { return nil }

// spent books an outcome that the run, or its sweep, had already; nil without a budget.
func (a Model) spent() func(outcome.Outcome) {
	if a.Budget == nil {
		return nil
	}
	return func(o outcome.Outcome) {
		a.Budget.Book(o.CostUSD, o.Usage, o.Assumed)
		if j := o.Judging; j != nil {
			a.Budget.Book(j.CostUSD, j.Usage, j.Assumed)
		}
	}
}

// NotKept says which answers could not be kept, after the run, which that does
// not harm; it is empty if all were.
func (a Model) NotKept() string {
	if a.cache == nil || a.cache.Err() == nil {
		return ""
	}
	return a.cache.Err().Error() + "; the run itself is not harmed"
}

// The files that replace or complete what is built in about models.
const (
	EnvModels = "EXPERIMENT_MODELS_FILE"
	EnvPrices = "EXPERIMENT_PRICES_FILE"
)

// Catalogue is what is known of models: what they cannot do, whose they are,
// and what they cost.
type Catalogue struct {
	models configs.Models
	prices configs.Prices
}

// ReadCatalogue reads what is known of models, with the files that the environment names.
func ReadCatalogue(getenv func(string) string) (Catalogue, error) {
	models, err := configs.LoadModels(getenv(EnvModels))
	prices, failed := configs.LoadPrices(getenv(EnvPrices))
	return Catalogue{models, prices}, refused(errors.Join(err, failed))
}

// ProviderConfig tells providers what the environment and the data say.
func (c Catalogue) ProviderConfig(getenv func(string) string) provider.Config {
	return provider.Config{
		Getenv: getenv,
		Guess: func(model string) (string, bool) {
			known, ok := c.models.Lookup(model)
			return known.Provider, ok && known.Provider != ""
		},
		Capabilities: func(model string) pipeline.Capabilities {
			known, _ := c.models.Lookup(model)
			return pipeline.Capabilities{
				NoTemperature: known.NoTemperature, NoTopP: known.NoTopP, NoSeed: known.NoSeed,
				MaxCompletionTokens: known.MaxCompletionTokens, InstructionOnly: known.NoSchema,
			}
		},
	}
}

// Price is what a model costs, as the pipeline asks for it.
func (c Catalogue) Price(model string) (pipeline.Price, bool) {
	p, ok := c.prices.Lookup(model)
	return pipeline.Price(p), ok
}

// endpointOf says which server the model is asked at: its host and the beginning
// of a hash of the address, which may hold more than a stranger should read;
// "default" for the provider's own, and empty where no server is asked.
func endpointOf(opened provider.Opened) string {
	if opened.Model == nil || strings.HasPrefix(opened.Pipeline, provider.Recorded) {
		return ""
	}
	address := strings.TrimRight(strings.TrimSpace(opened.Address), "/")
	if address == "" {
		return "default"
	}
	if u, err := url.Parse(address); err == nil {
		u.User = nil // who asks is not where
		address = u.String()
	}
	hash := sha256.Sum256([]byte(address))
	return hostOf(address) + "~" + hex.EncodeToString(hash[:4])
}
