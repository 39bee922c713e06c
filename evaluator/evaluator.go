package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/prompt"
)

// Config configures an Evaluator. Exactly one of Script, URL and Model is
// needed; every other zero value is usable.
type Config struct {
	// Script is a program and its arguments, run once for each case. A program
	// with a separator in its name is looked for relative to Dir.
	Script []string
	// Dir is the program's working directory. Its environment is that of this
	// process without what secret.Withhold keeps back, but for the variables that
	// Handed names; Env ("NAME=value") is added. What it writes to standard error
	// is shown by a Fault alone, the last lines.
	Dir    string
	Env    []string
	Handed []string

	// URL is an address that answers a POST of the request with a verdict.
	URL string
	// Token, if set, is sent to the address as "Authorization: Bearer". It comes
	// from the environment and is shown nowhere.
	Token string
	// Client sends the requests; nil means one with Go's defaults. Redirects
	// are never followed.
	Client *http.Client

	// Model judges by the Prompt; ModelName stands for it in reports.
	Model      pipeline.Model
	ModelName  string
	Prompt     prompt.Template
	Parameters pipeline.Parameters

	// Timeout bounds one evaluation, but for what is waited for limits and before
	// a request is sent again; 0 means 1 minute.
	Timeout time.Duration
	// Tries is how many requests to an address or a model may fail for one
	// evaluation, rejections for limits apart; 0 means 4. Pause is the time
	// before the second one, doubled each time; 0 is pipeline.DefaultRetryPause.
	Tries int
	Pause time.Duration
	// MaxOutput bounds an answer, in bytes; 0 means 1 MiB.
	MaxOutput int
}

// asker carries one case to whoever judges it.
type asker interface {
	ask(ctx context.Context, c Case) (Verdict, error)
}

// Evaluator asks an external evaluator. It is safe for concurrent use and keeps
// nothing between two cases but what it learned of the limits of an address or a
// model.
type Evaluator struct {
	cfg     Config
	asker   asker
	limiter *limit.Limiter // nil for a program, as
	asked   pipeline.Model // what is asked within it

	mask   *secret.Masker // of a program and an address
	failed atomic.Bool    // a program, at least once
}

// New makes an Evaluator. It starts and sends nothing. The error joins
// everything that is wrong with the Config.
func New(cfg Config) (*Evaluator, error) {
	var problems []error
	named := 0
	for _, is := range []bool{len(cfg.Script) > 0, cfg.URL != "", cfg.Model != nil} {
		if is {
			named++
		}
	}
	if named != 1 {
		problems = append(problems, errors.New("evaluator: give exactly one of a script, a URL and a model"))
	}
	if len(cfg.Script) > 0 && cfg.Script[0] == "" {
		problems = append(problems, errors.New("evaluator: the script names no program"))
	}
	if cfg.Timeout < 0 || cfg.MaxOutput < 0 || cfg.Tries < 0 || cfg.Pause < 0 {
		problems = append(problems, errors.New("evaluator: Timeout, MaxOutput, Tries and Pause must not be negative"))
	}
	mask := cfg.masker()
	problems = append(problems, mask.CheckArguments(cfg.Script))
	if cfg.URL != "" {
		problems = append(problems, checkURL(cfg.URL))
	}
	if cfg.Model != nil {
		problems = append(problems, checkPrompt(cfg.Prompt))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, time.Minute)
	cfg.MaxOutput = cmp.Or(cfg.MaxOutput, 1<<20)
	cfg.Tries = cmp.Or(cfg.Tries, defaultTries)
	return cfg.open(mask)
}

// masker hides what an evaluator could know of secrets.
func (cfg Config) masker() *secret.Masker {
	return secret.NewMasker(append(append(os.Environ(), cfg.Env...), "EVALUATOR_TOKEN="+cfg.Token), cfg.Script)
}

// open makes who is asked.
func (cfg Config) open(mask *secret.Masker) (*Evaluator, error) {
	e := &Evaluator{cfg: cfg, mask: mask}
	if len(cfg.Script) > 0 {
		e.asker = program{cfg}
		return e, nil
	}
	var err error
	if e.limiter, err = newLimiter(cfg.Pause); err != nil {
		return nil, err
	}
	if cfg.URL != "" {
		e.asked, err = cfg.within(newAddress(cfg, mask), e.limiter, nil)
		e.asker = endpoint{cfg, e.asked}
	} else {
		e.asked, err = cfg.within(cfg.Model, e.limiter, nil)
		e.asker = judge{cfg, e.asked}
	}
	return e, err
}

func checkURL(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return errors.New("evaluator: the address cannot be read")
	case u.User != nil:
		return errors.New("evaluator: the address holds a password, which would end up in reports: give a token by the environment instead")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("evaluator: %q is no address with http:// or https:// and a host", excerpt([]byte(address)))
	}
	return nil
}

// Evaluate asks once, within Config.Timeout; an address or a model is asked again
// where that may help, see pipeline.Limited. The error is a *Fault, or that of
// ctx when it ended, or one that stops a run (limit.StopsRun): the budget of
// Within is used up, or the run was stopped while the evaluation waited. The
// verdict beside an error holds what a model took and its Call, nothing else.
//
// A program is run with a process group of its own, of which nothing is left
// afterwards; a request to an endpoint may have been carried out even if there
// was an error.
func (e *Evaluator) Evaluate(ctx context.Context, c Case) (Verdict, error) {
	inner, cancel := limit.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	v, err := e.asker.ask(inner, c)
	if err == nil {
		return v, nil
	}
	v = Verdict{Usage: v.Usage, CostUSD: v.CostUSD, Call: v.Call}
	switch {
	case ctx.Err() != nil:
		return Verdict{}, ctx.Err()
	case errors.Is(inner.Err(), context.DeadlineExceeded):
		err = &Fault{TimedOut, fmt.Sprintf("no answer within %s", e.cfg.Timeout), err}
	case e.asked != nil:
		return v, e.notAnswered(err)
	}
	e.nameWithheld(err)
	return v, err
}

// nameWithheld has the first fault of a program name the variables that are kept
// from it: that may be why.
func (e *Evaluator) nameWithheld(err error) {
	var fault *Fault
	if len(e.cfg.Script) == 0 || !errors.As(err, &fault) || !e.failed.CompareAndSwap(false, true) {
		return
	}
	if _, withheld := secret.Withhold(os.Environ(), e.cfg.Handed); len(withheld) > 0 {
		fault.Message = fmt.Sprintf("(withheld: %s; env: hands one on) %s", strings.Join(withheld, ", "), fault.Message)
	}
}

// Command says who is asked, for reports: the words of the script, masked, the
// address without its query, or the model.
func (e *Evaluator) Command() []string {
	switch {
	case len(e.cfg.Script) > 0:
		return e.mask.Arguments(e.cfg.Script)
	case e.cfg.URL != "":
		return []string{e.mask.Text(shownURL(e.cfg.URL))}
	default:
		return []string{"model", e.cfg.ModelName, promptName(e.cfg.Prompt)}
	}
}
