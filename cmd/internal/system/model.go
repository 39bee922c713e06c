package system

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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

// Limits bound the requests to a model; 0 means no limit.
type Limits struct {
	RPM, TPM, Retries int
	Cache             string // a folder of answers; empty for no cache
	USD               float64
	Tokens            int
	Concurrency       int
	Timeout           time.Duration // of an item
	// Limiters, which the runs of a sweep share, are by model and host; nil for a single run.
	Limiters map[string]*limit.Limiter
	// Admission, if set, returns the admission of a workers.LimitGroup by another process.
	// The limits and the budget of that process then apply.
	Admission func(group string) pipeline.Admission
	// OnWait, if set, is called with the reason why a request to a provider waits.
	OnWait func(provider string, wait pipeline.Wait)
}

// Limited reports whether a setting is used that only a model has: a rate, a cache or a budget.
func (c Limits) Limited() bool {
	return c.RPM > 0 || c.TPM > 0 || c.Cache != "" || c.USD > 0 || c.Tokens > 0
}

// Model is a model with its limits, budget and cache.
type Model struct {
	pipeline.Model
	window string // the windowKey
	// limiter is nil for a recording, and if another process has the limits.
	limiter   *limit.Limiter
	remote    pipeline.Model   // the model without the cache; nil for a recording
	Budget    *pipeline.Budget // nil without a bound
	cache     *pipeline.Cache  // nil without one
	group     string           // its workers.LimitGroup
	admission pipeline.Admission
	limits    Limits
}

// Admission returns the admission of a workers.LimitGroup. A group other than the model's
// own, of a worker with another key or host, gets a new limiter with the same limits, and
// the same budget.
func (m Model) Admission(group string) pipeline.Admission {
	if group == m.group {
		return m.admission
	}
	return pipeline.NewAdmission(limit.New(m.limits.config(pace{})), m.Budget)
}

// withLimits adds limits, a budget and a cache to a model; a recording gets none. The
// timeout of a request is half of that of an item, so that a hanging request is retried.
func (o Opener) withLimits(opened provider.Opened, known Catalogue, c Limits) (Model, error) {
	priced := pipeline.Priced(opened.Model, opened.Info.Model, known.Price)
	if opened.Info.Pipeline == provider.Recorded {
		return Model{Model: priced}, nil
	}
	group := workers.LimitGroup(opened.Provider+"/"+opened.Info.Model, hostOf(opened.Address), opened.Key.Reveal())
	a := Model{group: group, limits: c}
	var err error
	if c.Admission != nil {
		a.admission = c.Admission(a.group)
	} else if err = a.openAdmission(opened, known); err != nil {
		return Model{}, err
	}
	a.remote = pipeline.Limited(pipeline.LimitedConfig{
		Model: priced, Admission: a.admission, Tries: c.Retries + 1, Timeout: c.Timeout / 2,
		OnWait: func(wait pipeline.Wait) {
			if c.OnWait != nil {
				c.OnWait(opened.Provider, wait)
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

// openAdmission sets the limiter, the budget and the admission of this process. The runs of
// a sweep share the limiter of a model, so that each run starts with what the earlier ones
// learned about the provider.
func (m *Model) openAdmission(opened provider.Opened, known Catalogue) (err error) {
	m.window = windowKey(opened)
	if m.limiter = m.limits.Limiters[m.window]; m.limiter == nil {
		m.limiter = limit.New(m.limits.config(readWindows()[m.window]))
		if m.limits.Limiters != nil {
			m.limits.Limiters[m.window] = m.limiter
		}
	}
	m.Budget, err = m.limits.budget(opened.Info.Model, known)
	m.admission = pipeline.NewAdmission(m.limiter, m.Budget)
	return err
}

// budget returns a new budget for a model; nil without a bound.
func (c Limits) budget(model string, known Catalogue) (*pipeline.Budget, error) {
	if c.USD == 0 && c.Tokens == 0 {
		return nil, nil
	}
	return pipeline.NewBudget(pipeline.BudgetConfig{USD: c.USD, Tokens: int64(c.Tokens), Model: model, Prices: known.Price})
}

func (c Limits) config(last pace) limit.Config {
	return limit.Config{
		MaxConcurrent: c.Concurrency, Start: max(0, last.Calls), Latency: max(0, last.Latency),
		RequestsPerMinute: int64(c.RPM), TokensPerMinute: int64(c.TPM),
	}
}

// pace is the number of concurrent calls that a model accepted at the end of its last run,
// and the latency of a call. The next run starts with it.
type pace struct {
	Calls   int           `json:"calls"`
	Latency time.Duration `json:"latency_ns"`
}

// windowKey returns the key of a model's pace: provider, model and host.
func windowKey(opened provider.Opened) string {
	return strings.TrimSpace(opened.Provider + "/" + opened.Info.Model + " " + hostOf(opened.Address))
}

// hostOf returns the host of an address; "" if the address is invalid.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

func windowsPath() string { return filepath.Join(experiment.Folder, "cache", "windows.json") }

// readWindows returns the stored paces by windowKey. It is empty if they cannot be read.
func readWindows() map[string]pace {
	var windows map[string]pace
	raw, err := files.Read(context.Background(), windowsPath(), 1<<20)
	if err != nil || json.Unmarshal(raw, &windows) != nil || windows == nil {
		return map[string]pace{}
	}
	return windows
}

// saveWindow stores the pace of the model, if the run had enough answers to learn it. It
// ignores errors of writing, since without a pace the next run only starts more slowly.
func (m Model) saveWindow() error {
	const minAnswers = 20
	if m.limiter == nil {
		return nil
	}
	windows, state := readWindows(), m.limiter.State()
	previous, current := windows[m.window], pace{max(1, int(state.Window)), state.Latency}
	if !state.Limited && current.Calls <= max(limit.Start, previous.Calls) { // --concurrency or the load kept it small
		current.Calls = previous.Calls
	}
	if state.Answers < minAnswers || current.Calls == 0 || current.Calls == previous.Calls && current.Latency/2 <= previous.Latency && previous.Latency/2 <= current.Latency {
		return nil
	}
	windows[m.window] = current
	if os.MkdirAll(filepath.Dir(windowsPath()), 0o700) == nil {
		_ = files.Write(windowsPath(), func(out io.Writer) error { return json.NewEncoder(out).Encode(windows) })
	}
	return nil
}

// noClose is the Close of a system without resources.
func noClose() error { return nil }

// restoreSpent returns a function that charges an earlier outcome of the run or its sweep to
// the budget, at the prices of the models that were asked; nil without a budget. What was
// replayed cost nothing.
func (m Model) restoreSpent() func(outcome.Header, outcome.Outcome) {
	if m.Budget == nil {
		return nil
	}
	book := func(model string, usd *float64, used, assumed outcome.Usage) {
		budget, err := m.Budget.For(model)
		if err != nil { // without a price
			budget = m.Budget
		}
		budget.Book(usd, used, assumed)
	}
	return func(h outcome.Header, o outcome.Outcome) {
		if h.System.Pipeline != provider.Recorded {
			book(h.System.Model, o.CostUSD, o.Usage, o.Assumed)
		}
		for _, c := range o.Calls {
			if c.Kind == outcome.JudgingKind && !c.Cached {
				_, name, _ := strings.Cut(c.Model, "/") // after the provider
				book(name, c.CostUSD, c.Usage, c.Assumed)
			}
		}
	}
}

// CacheProblem describes why answers could not be written to the cache, or is empty. Call it
// after the run, which such an error does not affect.
func (m Model) CacheProblem() string {
	if m.cache == nil || m.cache.Err() == nil {
		return ""
	}
	return m.cache.Err().Error() + "; the run itself is not harmed"
}

// The variables that name files which replace or complete the built-in data about models.
const (
	EnvModels = "EXPERIMENT_MODELS_FILE"
	EnvPrices = "EXPERIMENT_PRICES_FILE"
)

// Catalogue has the providers, the missing capabilities and the prices of models.
type Catalogue struct {
	models configs.Models
	prices configs.Prices
}

// ReadCatalogue reads the built-in data about models and the files that EnvModels and
// EnvPrices name. The exit code of an error is 64.
func ReadCatalogue(getenv func(string) string) (Catalogue, error) {
	models, err := configs.LoadModels(getenv(EnvModels), provider.OfModels())
	if err != nil {
		err = fmt.Errorf("%s: %w", EnvModels, err)
	}
	prices, pricesErr := configs.LoadPrices(getenv(EnvPrices))
	if pricesErr != nil {
		pricesErr = fmt.Errorf("%s: %w", EnvPrices, pricesErr)
	}
	return Catalogue{models, prices}, usageError(errors.Join(err, pricesErr))
}

// ProviderConfig returns the configuration of providers from the environment and the
// catalogue.
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
				MaxCompletionTokens: known.MaxCompletionTokens, NoSchema: known.NoSchema,
			}
		},
	}
}

// Price returns the price of a model, and false if it is unknown.
func (c Catalogue) Price(model string) (pipeline.Price, bool) {
	p, ok := c.prices.Lookup(model)
	return pipeline.Price(p), ok
}

// endpointOf names the server of a model: its host and the beginning of a hash of the
// address, since the address may contain secrets. It is "default" for the provider's own
// server, and empty if there is no server, as for the baseline and recordings.
func endpointOf(opened provider.Opened) string {
	if opened.Model == nil || strings.HasPrefix(opened.Pipeline, provider.Recorded) {
		return ""
	}
	address := strings.TrimRight(strings.TrimSpace(opened.Address), "/")
	if address == "" {
		return "default"
	}
	if u, err := url.Parse(address); err == nil {
		u.User = nil // credentials do not identify the server
		address = u.String()
	}
	hash := sha256.Sum256([]byte(address))
	return hostOf(address) + "~" + hex.EncodeToString(hash[:4])
}
