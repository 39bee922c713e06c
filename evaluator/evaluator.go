package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"extraction-experiment/pipeline"
	"extraction-experiment/pipeline/prompt"
)

// Config configures an Evaluator. Exactly one of Script, URL and Model is
// needed; every other zero value is usable.
type Config struct {
	// Script is a program and its arguments, run once for each case. A program
	// with a separator in its name is looked for relative to Dir.
	Script []string
	// Dir is the program's working directory, Env is added to its environment,
	// Stderr is given all that it writes there.
	Dir    string
	Env    []string
	Stderr io.Writer

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

	// Timeout bounds one evaluation; 0 means 1 minute.
	Timeout time.Duration
	// MaxOutput bounds an answer, in bytes; 0 means 1 MiB.
	MaxOutput int
}

// asker carries one case to whoever judges it.
type asker interface {
	ask(ctx context.Context, c Case) (Verdict, error)
}

// Evaluator asks an external evaluator. It is safe for concurrent use and keeps
// nothing between two cases.
type Evaluator struct {
	cfg   Config
	asker asker
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
	if cfg.Timeout < 0 || cfg.MaxOutput < 0 {
		problems = append(problems, errors.New("evaluator: Timeout and MaxOutput must not be negative"))
	}
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
	e := &Evaluator{cfg: cfg}
	switch {
	case len(cfg.Script) > 0:
		e.asker = program{cfg}
	case cfg.URL != "":
		e.asker = newEndpoint(cfg)
	default:
		e.asker = judge{cfg}
	}
	return e, nil
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

// Evaluate asks once, within Config.Timeout. The error is a *Fault, or that of
// ctx when it ended. A program is run with a process group of its own, of which
// nothing is left afterwards; a request to an endpoint may have been carried
// out even if there was an error.
func (e *Evaluator) Evaluate(ctx context.Context, c Case) (Verdict, error) {
	inner, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()
	v, err := e.asker.ask(inner, c)
	if err == nil {
		return v, nil
	}
	if ctx.Err() != nil {
		return Verdict{}, ctx.Err()
	}
	if errors.Is(inner.Err(), context.DeadlineExceeded) {
		return Verdict{}, &Fault{TimedOut, fmt.Sprintf("no answer within %s", e.cfg.Timeout), err}
	}
	return Verdict{}, err
}

// Command says who is asked, for reports: the words of the script, the address
// without its query, or the model.
func (e *Evaluator) Command() []string {
	switch {
	case len(e.cfg.Script) > 0:
		return append([]string{}, e.cfg.Script...)
	case e.cfg.URL != "":
		return []string{shownURL(e.cfg.URL)}
	default:
		return []string{"model", e.cfg.ModelName, promptName(e.cfg.Prompt)}
	}
}
