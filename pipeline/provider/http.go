package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// maxBody is how much of an answer is read at most, in bytes after
// decompression.
const maxBody = 64 << 20

// errTooLarge says that an answer was cut off at maxBody.
var errTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxBody>>20)

// exchange is one request and its whole answer, read under a cap and kept. The client
// is Go's: HTTPS_PROXY, HTTP_PROXY and NO_PROXY choose a proxy, and SSL_CERT_FILE and
// SSL_CERT_DIR add private certificates where the system's own store is not asked (Linux
// and other Unix systems; on macOS and Windows a private certificate belongs into the
// system's store).
type exchange struct {
	Requests int         // how many were sent: 0 or 1
	Status   int         // of HTTP; 0 if no answer began
	Header   http.Header // of the answer
	Body     []byte      // what was read of the answer
	Err      error       // why no whole answer came
}

// post sends a value as JSON, once, and reads the whole answer into the exchange. No
// redirect is followed. What the mask hides reads *** where a server repeats it.
func (c chat) post(ctx context.Context, x *exchange, address string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("writing the body of the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	for _, h := range c.headers {
		req.Header.Set(h.name, h.value.Reveal())
	}
	x.Requests++
	x.Err = x.receive(c.http.Do(req))
	x.Body = c.service.Mask.JSON(x.Body)
	return x.Err
}

// receive reads an answer.
func (x *exchange) receive(res *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer res.Body.Close()
	x.Status, x.Header = res.StatusCode, res.Header
	x.Body, err = io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err == nil && len(x.Body) > maxBody {
		x.Body, err = x.Body[:maxBody], errTooLarge
	}
	if err != nil {
		return fmt.Errorf("reading the answer, of which %d bytes came: %w", len(x.Body), err)
	}
	return nil
}

// baseURL returns the address of a server without trailing slashes. Variable
// is the name under which a person sets it. An address with credentials is
// refused and not repeated.
func baseURL(address, variable string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	switch {
	case err != nil:
		return "", fmt.Errorf("the base URL (%s) cannot be read as an address: expected something like https://host/v1", variable)
	case u.User != nil:
		return "", fmt.Errorf("the base URL (%s) must not contain a user or password: keys and headers are given on their own", variable)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("the base URL %.200q (%s) needs http:// or https:// and a host", address, variable)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("the base URL (%s) must not have a query or a fragment", variable)
	}
	return strings.TrimRight(u.String(), "/"), nil
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

// chat is what the models behind an address have in common.
type chat struct {
	can     pipeline.Capabilities
	service service
	http    *http.Client
	headers []header
}

// header is sent with every request; a later one replaces an earlier one of its name.
type header struct {
	name  string
	value secret.Secret
}

// newChat checks what every provider needs; the problems are for one error.
func newChat(provider string, cfg modelConfig, keyVariable, baseVariable string) (chat, []error) {
	base, err := baseURL(cfg.BaseURL, baseVariable)
	problems := []error{err, checkKey(cfg.APIKey, keyVariable), checkHeaders(cfg.Headers)}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	about := service{Provider: provider, Model: cfg.Model, Base: base, KeyVariable: keyVariable,
		BaseVariable: baseVariable, Mask: newMask(cfg.APIKey, cfg.Headers), Now: cfg.Now}
	return chat{can: cfg.Capabilities, service: about, http: limit.HTTPClient(cfg.HTTPClient)}, problems
}

// setHeaders takes the header of the key, if there is one, and those of the configuration.
func (c *chat) setHeaders(name, key string, cfg modelConfig) {
	if cfg.APIKey.Reveal() != "" {
		c.headers = append(c.headers, header{name, secret.New(key)})
	}
	for name, value := range cfg.Headers {
		c.headers = append(c.headers, header{name, value})
	}
}

// failed is what Generate returns for an exchange without a usable answer.
func (c chat) failed(ctx context.Context, x *exchange, err error) (pipeline.Response, error) {
	if stop := c.service.stopped(ctx, x); stop != nil {
		return pipeline.Response{Attempts: x.Requests}, stop
	}
	return pipeline.Response{Attempts: x.Requests}, c.service.fault(x, err)
}

// setParameters adds the parameters that are given, under the names of a protocol.
func setParameters(to map[string]any, p pipeline.Parameters, topP, maxTokens string) {
	if p.Temperature != nil {
		to["temperature"] = *p.Temperature
	}
	if p.TopP != nil {
		to[topP] = *p.TopP
	}
	if p.Seed != nil {
		to["seed"] = *p.Seed
	}
	if p.MaxTokens != nil {
		to[maxTokens] = *p.MaxTokens
	}
}

// checkText is the error of an answer without text, unless it was refused, or thinking
// used up the limit of tokens: those the caller sees from Finish.
func (c chat) checkText(r pipeline.Response, x *exchange, what string) error {
	if strings.TrimSpace(r.Text) != "" || r.Finish == pipeline.FinishRefused || r.Finish == pipeline.FinishLength {
		return nil
	}
	return c.empty(x, what)
}

// empty is the error of an answer without text. Asking again may help: models
// answer differently each time.
func (c chat) empty(x *exchange, what string) error {
	e := failed(outcome.InvalidOutput, "%s: %s: %s", c.service.Provider, c.service.Model, what)
	e.Status, e.Retry = x.Status, true
	return &e
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

// checkKey refuses a key that no header can carry, without repeating it.
func checkKey(key secret.Secret, variable string) error {
	if strings.ContainsFunc(key.Reveal(), func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("the key (%s) contains a space, a line break or a letter outside of ASCII: copy it again", variable)
	}
	return nil
}

// headerName is a token of RFC 9110.
var headerName = textutil.Pattern("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// checkHeaders refuses headers that cannot be sent, all at once. Values are
// not repeated.
func checkHeaders(headers map[string]secret.Secret) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		if !headerName().MatchString(name) {
			problems = append(problems, fmt.Errorf("the header name %.80q is not one", name))
		}
		if strings.ContainsFunc(value.Reveal(), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			problems = append(problems, fmt.Errorf("the value of the header %.80q contains a line break or a control character", name))
		}
	}
	return errors.Join(problems...)
}
