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
	"regexp"
	"slices"
	"strings"
	"time"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/jsonparts"
	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// maxBody is how much of an answer is read at most, in bytes after
// decompression.
const maxBody = 64 << 20

// errTooLarge says that an answer was cut off at maxBody.
var errTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxBody>>20)

// errSecond is what a library gets that wants to send another request.
var errSecond = errors.New("a second request within one call was refused")

// exchange is one request and its whole answer, between a client library and the
// network, so that what a library does by itself is under control: one request and no
// more, no redirects, the body of the request as it must be, an answer read under a cap
// and kept, and errors in words for a person.
//
//	client := newClient(nil, headers, mask)          // given to the library
//	var x exchange
//	_, err := library.Call(withExchange(ctx, &x))    // at most one request
//	problem := service.fault(&x, err)                // why it did not work
//
// The default transport is Go's: HTTPS_PROXY, HTTP_PROXY and NO_PROXY choose a proxy,
// and SSL_CERT_FILE and SSL_CERT_DIR add private certificates where the system's own
// store is not asked (Linux and other Unix systems; on macOS and Windows a private
// certificate belongs into the system's store).
//
// Edit is set before, the rest is
// filled in by the client. It belongs to one call and one goroutine.
type exchange struct {
	// Edit returns the body to send for the one that the library made; nil
	// sends that one.
	Edit func(body []byte) ([]byte, error)

	Requests int         // how many were sent: 0 or 1
	Status   int         // of HTTP; 0 if no answer began
	Header   http.Header // of the answer
	Body     []byte      // what was read of the answer
	Err      error       // why no whole answer came, or none was asked for
}

type contextKey struct{}

// withExchange returns a context whose request is x.
func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, contextKey{}, x)
}

// newClient returns a client that sends requests made within withExchange through
// inner, with the headers added. Inner is copied, so that redirects are not
// followed: they would lose the body or the key. Nil is a client with Go's
// default transport that keeps enough connections open for many calls at once.
// Requests outside of withExchange fail. A server that repeats in its answer what the mask
// hides is not listened to: *** stands there. Safe for concurrent use.
func newClient(inner *http.Client, headers map[string]secret.Secret, mask *secret.Masker) *http.Client {
	once := limit.HTTPClient(inner, 64)
	return &http.Client{Transport: &transport{client: once, headers: headers, mask: mask}, CheckRedirect: once.CheckRedirect}
}

type transport struct {
	client  *http.Client
	headers map[string]secret.Secret
	mask    *secret.Masker
}

// RoundTrip sends the request and reads the whole answer.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(contextKey{}).(*exchange)
	body, err := drain(req.Body)
	switch {
	case !ok:
		return nil, errors.New("a request outside of an exchange was refused")
	case x.Requests > 0:
		return nil, errSecond
	case err != nil:
		return nil, err
	}
	res, err := t.send(req, x, body)
	x.Err = err
	return res, err
}

func (t *transport) send(req *http.Request, x *exchange, body []byte) (*http.Response, error) {
	if x.Edit != nil {
		edited, err := x.Edit(body)
		if err != nil {
			return nil, fmt.Errorf("writing the body of the request: %w", err)
		}
		body = edited
	}
	out, err := http.NewRequestWithContext(req.Context(), req.Method, req.URL.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = req.Header.Clone()
	for name, value := range t.headers {
		out.Header.Set(name, value.Reveal())
	}
	x.Requests++
	res, err := t.client.Do(out)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	x.Status, x.Header = res.StatusCode, res.Header
	x.Body, err = io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err == nil && len(x.Body) > maxBody {
		x.Body, err = x.Body[:maxBody], errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("reading the answer, of which %d bytes came: %w", len(x.Body), err)
	}
	x.Body = t.mask.JSON(x.Body)
	answer := *res
	answer.Request = req
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(x.Body)), int64(len(x.Body))
	return &answer, nil
}

// drain reads and closes the body of a request, which may be nil.
func drain(body io.ReadCloser) ([]byte, error) {
	if body == nil {
		return nil, nil
	}
	read, err := io.ReadAll(body)
	return read, errors.Join(err, body.Close())
}

// setMembers returns a JSON object with the members replaced or added; what they hold
// is written as it is. Members that are not named keep their text, numbers and
// order of keys included; the object's own members come out sorted.
func setMembers(object []byte, members map[string]any) ([]byte, error) {
	if object = bytes.TrimSpace(object); len(object) == 0 || string(object) == "null" {
		object = []byte("{}")
	}
	if !json.Valid(object) || object[0] != '{' {
		return nil, errors.New("not a JSON object")
	}
	fields := maps.Collect(jsonparts.Members(object))
	for name, value := range members {
		encoded, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fields[name] = encoded
	}
	b := append(make([]byte, 0, len(object)+256), '{')
	for i, name := range slices.Sorted(maps.Keys(fields)) {
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, key...), ':'), fields[name]...)
	}
	return append(b, '}'), nil
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
	http    *http.Client // for the library
}

// newChat checks what every provider needs; the problems are for one error.
func newChat(provider string, cfg modelConfig, keyVariable, baseVariable string) (chat, []error) {
	base, err := baseURL(cfg.BaseURL, baseVariable)
	problems := []error{err, checkKey(cfg.APIKey, keyVariable), checkHeaders(cfg.Headers)}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	mask := newMask(cfg.APIKey, cfg.Headers)
	return chat{cfg.Capabilities, service{
		Provider: provider, Model: cfg.Model, Base: base, KeyVariable: keyVariable,
		BaseVariable: baseVariable, Mask: mask, Now: cfg.Now,
	}, newClient(cfg.HTTPClient, cfg.Headers, mask)}, problems
}

// failed is what Generate returns for an exchange without a usable answer.
func (c chat) failed(ctx context.Context, x *exchange, err error) (pipeline.Response, error) {
	if stop := c.service.stopped(ctx, x); stop != nil {
		return pipeline.Response{Attempts: x.Requests}, stop
	}
	return pipeline.Response{Attempts: x.Requests}, c.service.fault(x, err)
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
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// checkHeaders refuses headers that cannot be sent, all at once. Values are
// not repeated.
func checkHeaders(headers map[string]secret.Secret) error {
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		if !headerName.MatchString(name) {
			problems = append(problems, fmt.Errorf("the header name %.80q is not one", name))
		}
		if strings.ContainsFunc(value.Reveal(), func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			problems = append(problems, fmt.Errorf("the value of the header %.80q contains a line break or a control character", name))
		}
	}
	return errors.Join(problems...)
}
