package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// maxBody is how much of an answer is read at most, in bytes after
// decompression.
const maxBody = 64 << 20

// exchange is one request and its answer, or why no whole one came.
type exchange struct {
	proc.Reply
	Err error
}

// modelConfig says which model of which server to ask.
type modelConfig struct {
	// Model is the name as the server knows it; the deployment's name on Azure.
	Model string
	// APIKey is sent in a header, never in the address. Empty: none is sent, as local
	// servers want it.
	APIKey secret.Secret
	// BaseURL is the address before /chat/completions, or before /v1beta of Gemini.
	// Empty: that of the provider.
	BaseURL string
	// Azure sends the key in the header api-key. A BaseURL that ends in /openai/v1 is
	// used as it is; below any other the path is
	// /openai/deployments/{Model}/chat/completions, and APIVersion is required.
	Azure bool
	// APIVersion is sent as the query's api-version; only with Azure.
	APIVersion string
	// Headers are sent with every request and replace those of the same name.
	// They may hold keys of gateways and are kept out of messages.
	Headers map[string]secret.Secret
	// HTTPClient sends the requests; it is copied, redirects are not followed.
	// Nil: a client with Go's default transport and without a timeout, because
	// the context given to Generate bounds the time.
	HTTPClient *http.Client
	// Capabilities says what the model cannot do. Zero: it can do everything.
	Capabilities pipeline.Capabilities
	// Now reads the clock, for a Retry-After that is a date. Nil: time.Now.
	Now func() time.Time
}

// protocol is how a provider's API is spoken.
type protocol interface {
	// body is the JSON of a request; an error says that it cannot be asked.
	body(model modelConfig, req pipeline.Request) ([]byte, error)
	// read takes an answer apart; an error says that it is none.
	read(body []byte) (decoded, error)
}

// decoded is what a protocol reads in an answer. Only the first choice counts; more were
// not asked for.
type decoded struct {
	pipeline.Response
	choices int
	empty   string // what is said of it where it has no text
	err     error  // why its text cannot be read
}

// chat is a model behind an address.
type chat struct {
	modelConfig
	protocol
	provider, keyVariable, baseVariable string
	at                                  *proc.Address
	mask                                *secret.Masker
	problems                            []error // of the configuration
}

// headerName is a token of RFC 9110.
var headerName = textutil.Pattern("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// newChat checks what every provider needs, without repeating keys.
func newChat(provider string, cfg modelConfig, keyVariable, baseVariable string) *chat {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.BaseURL = strings.TrimRight(strings.TrimSpace(cfg.BaseURL), "/")
	c := &chat{modelConfig: cfg, provider: provider, keyVariable: keyVariable, baseVariable: baseVariable, mask: newMask(cfg.APIKey, cfg.Headers)}
	c.problem(strings.ContainsAny(cfg.BaseURL, "?#"), "the base URL (%s) must not have a query or a fragment", baseVariable)
	c.problem(strings.ContainsFunc(cfg.APIKey.Reveal(), func(r rune) bool { return r <= ' ' || r >= 0x7f }),
		"the key (%s) contains a space, a line break or a letter outside of ASCII: copy it again", keyVariable)
	for _, name := range slices.Sorted(maps.Keys(cfg.Headers)) {
		control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
		c.problem(!headerName().MatchString(name), "the header name %.80q is not one", name)
		c.problem(strings.ContainsFunc(cfg.Headers[name].Reveal(), control),
			"the value of the header %.80q contains a line break or a control character", name)
	}
	return c
}

// problem notes what is wrong with the configuration, if anything is.
func (c *chat) problem(wrong bool, format string, args ...any) {
	if wrong {
		c.problems = append(c.problems, fmt.Errorf(format, args...))
	}
}

// speaking returns the model, which is asked at an address with its key in a header, or
// all problems of the configuration at once in an error with the exit code 64. The
// client is Go's: HTTPS_PROXY, HTTP_PROXY and NO_PROXY choose a proxy, and SSL_CERT_FILE
// and SSL_CERT_DIR add private certificates where the system's own store is not asked
// (Linux and other Unix systems; on macOS and Windows a private certificate belongs into
// the system's store).
func (c *chat) speaking(p protocol, address, keyHeader, keyPrefix string) (pipeline.Model, error) {
	headers := map[string]secret.Secret{}
	if key := c.APIKey.Reveal(); key != "" {
		headers[keyHeader] = secret.New(keyPrefix + key)
	}
	for name, value := range c.Headers {
		headers[http.CanonicalHeaderKey(name)] = value
	}
	var err error
	c.protocol = p
	c.at, err = proc.NewAddress(proc.AddressConfig{URL: address, Headers: headers, MaxAnswer: maxBody, Mask: c.mask, Client: c.HTTPClient})
	c.problem(err != nil, "the base URL (%s): %w", c.baseVariable, err)
	if err := errors.Join(c.problems...); err != nil {
		return nil, configError(c.provider, err)
	}
	return c, nil
}

// Generate sends one request and reads the whole answer, at most 64 MiB. Nothing is
// retried or continued and no redirect followed; to repeat a call is safe but costs again.
//
// The Response holds what is known with an error too: the requests made, and the usage of
// an answer without text. A refusal, of the model, its filter or a filter of prompts, is a
// Response with FinishRefused, its Text the reason that the server gave where there is no
// other. Errors are: one of exit code 64 for what cannot be asked (nothing is sent); one
// that wraps ctx.Err(); and a *pipeline.ModelError, of class invalid_output where the
// answer holds no text, rate_limited for 429, timeout if the HTTP client gave up, else
// provider.
func (c *chat) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	if err := c.Capabilities.Check(req); err != nil {
		return pipeline.Response{}, err
	}
	body, err := c.body(c.modelConfig, req)
	if err != nil {
		return pipeline.Response{}, err
	}
	var x exchange
	x.Reply, x.Err = c.at.Ask(ctx, http.MethodPost, body)
	var found decoded
	if err = x.Err; err == nil && !x.Flooded {
		found, err = c.read(x.Body)
	}
	found.Attempts = 1
	if text, ok := x.filtered(); ok {
		return pipeline.Response{Text: text, Finish: pipeline.FinishRefused, Attempts: 1}, nil
	}
	if err != nil || x.Flooded || !x.answers(found.choices) {
		if stop := c.stopped(ctx, &x); stop != nil {
			return pipeline.Response{Attempts: 1}, stop
		}
		return pipeline.Response{Attempts: 1}, c.fault(&x, err)
	}
	if found.err != nil {
		return found.Response, c.fault(&x, found.err)
	}
	// Of a refusal, and where thinking used up the limit of tokens, Finish tells the caller.
	if strings.TrimSpace(found.Text) != "" || found.Finish == pipeline.FinishRefused || found.Finish == pipeline.FinishLength {
		return found.Response, nil
	}
	e := failed(outcome.InvalidOutput, "%s: %s: %s", c.provider, c.Model, found.empty)
	e.Status, e.Retry = x.Status, true // models answer differently each time
	return found.Response, e
}

// filtered recognises the status 400 by which Azure says that its filter declined the
// prompt.
func (x *exchange) filtered() (string, bool) {
	if x.Status != http.StatusBadRequest || x.Err != nil {
		return "", false
	}
	reason := x.reason()
	return reason.Text, reason.has("content_filter", "ResponsibleAIPolicyViolation")
}

// finish translates a finish reason: in small letters those of OpenAI, in capitals those
// of Gemini.
func finish(reason string) pipeline.Finish {
	switch reason {
	case "stop", "STOP":
		return pipeline.FinishStop
	case "length", "MAX_TOKENS":
		return pipeline.FinishLength
	case "content_filter", "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII":
		return pipeline.FinishRefused
	}
	return pipeline.FinishOther
}

// usage is what counts of tokens come to, of which output holds the reasoning; odd is
// that of pipeline.OddTokens about those that were reported.
func usage(input, output, cached, reasoning int, reported ...int) (u outcome.Usage, odd string) {
	if odd = pipeline.OddTokens(reported...); odd != "" {
		return u, odd
	}
	return outcome.Usage{Input: int64(input), Output: int64(output),
		Cached: int64(min(cached, input)), Reasoning: int64(min(reasoning, output))}, ""
}

// answers reports whether there is an answer of so many choices: gateways in front of
// several providers hide errors behind a good status.
func (x *exchange) answers(choices int) bool {
	return x.Status/100 == 2 && (choices > 0 || len(x.Body) > 0 && !x.reason().Stated)
}

// configError holds all problems of a provider's configuration, one a line.
func configError(provider string, err error) error {
	start := provider + ": "
	return cli.Usage("%s%s", start, strings.ReplaceAll(err.Error(), "\n", "\n"+start))
}

// newMask returns what hides the key and the values of headers, and the password
// of a proxy, in answers and messages.
func newMask(key secret.Secret, headers map[string]secret.Secret) *secret.Masker {
	given := []string{"KEY=" + key.Reveal()}
	for _, value := range headers {
		given = append(given, "HEADER="+value.Reveal())
	}
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(strings.ToUpper(entry), "="); strings.HasSuffix(name, "_PROXY") {
			given = append(given, entry)
		}
	}
	return secret.NewMasker(given, nil)
}
