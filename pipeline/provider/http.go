package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"extraction-experiment/internal/cli"
	"extraction-experiment/internal/proc"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// maxBody is the most bytes of an answer that are read, after decompression.
const maxBody = 64 << 20

// modelConfig identifies a model on a server.
type modelConfig struct {
	// Model is the name on the server; on Azure, the name of the deployment.
	Model string
	// APIKey is sent in a header, never in the address. If it is empty, no key is sent, as for
	// local servers.
	APIKey secret.Secret
	NoKey  bool // allows the key to be missing
	// BaseURL is the address before /chat/completions, or before /v1beta for Gemini. Empty
	// means the default address of the provider.
	BaseURL string
	// Azure sends the key in the header api-key. A BaseURL that ends in /openai/v1 is used
	// unchanged. Below any other, the path is /openai/deployments/{Model}/chat/completions, and
	// APIVersion is required.
	Azure bool
	// APIVersion is sent as the query parameter api-version; only with Azure.
	APIVersion string
	// Headers are sent with every request and replace other headers of the same name. They may
	// hold keys of gateways, which messages do not show.
	Headers map[string]secret.Secret
	// HTTPClient sends the requests. It is copied, and redirects are not followed. Nil means a
	// client with the default transport of Go and no timeout, because the context of Generate
	// bounds the time.
	HTTPClient *http.Client
	// Capabilities says what the model cannot do. The zero value can do everything.
	Capabilities pipeline.Capabilities
}

// protocol is the API of a provider.
type protocol interface {
	// requestBody returns the JSON of a request, or an error if the API cannot express the
	// request.
	requestBody(model modelConfig, req pipeline.Request) ([]byte, error)
	// parseAnswer reads the body of an answer. The error says why it is none, or why its text cannot
	// be read; then the usage is known.
	parseAnswer(body []byte) (parsedAnswer, error)
}

// parsedAnswer is what a protocol reads in an answer. Only the first choice counts, because no
// more are requested.
type parsedAnswer struct {
	pipeline.Response
	hasChoice    bool
	emptyMessage string // the message if there is no text, or the server broke off the answer
}

// decodeAnswer decodes the JSON of an answer. Some servers write more after it, which is ignored.
func decodeAnswer(body []byte, answer any) error {
	return json.NewDecoder(bytes.NewReader(body)).Decode(answer)
}

// httpModel is a model over HTTP.
type httpModel struct {
	modelConfig
	protocol
	provider, keyVariable, urlVariable string
	address                            *proc.Address
	mask                               *secret.Masker
	problems                           textutil.Problems // of the configuration
}

// headerName matches a token of RFC 9110.
var headerName = textutil.Pattern("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// newHTTPModel checks what every provider needs. Messages do not show keys.
func newHTTPModel(provider string, cfg modelConfig, keyVariable, urlVariable string) *httpModel {
	cfg.BaseURL = strings.TrimRight(strings.TrimSpace(cfg.BaseURL), "/")
	c := &httpModel{modelConfig: cfg, provider: provider, keyVariable: keyVariable, urlVariable: urlVariable}
	c.mask = newMask(cfg.APIKey, cfg.Headers, true)
	c.problems.Add(strings.ContainsAny(cfg.BaseURL, "?#"), "the base URL (%s) must not have a query or a fragment",
		urlVariable)
	c.problems.Add(strings.ContainsFunc(cfg.APIKey.Reveal(), func(r rune) bool { return r <= ' ' || r >= 0x7f }),
		"the key (%s) contains a space, a line break or a letter outside of ASCII: copy it again", keyVariable)
	ignored := []string{"Content-Length", "Trailer", "Transfer-Encoding"} // by the HTTP client of Go, without an error
	for _, name := range slices.Sorted(maps.Keys(cfg.Headers)) {
		control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
		c.problems.Add(!headerName().MatchString(name), "the header name %.80q is not one", name)
		c.problems.Add(slices.Contains(ignored, http.CanonicalHeaderKey(name)),
			"the header %q cannot be set, because the HTTP client alone decides it", name)
		c.problems.Add(strings.ContainsFunc(cfg.Headers[name].Reveal(), control),
			"the value of the header %.80q contains a line break or a control character", name)
	}
	return c
}

// open returns the model, which sends its key in a header to an address, or one error of exit
// code 64 with all problems of the configuration. The client is that of Go: HTTPS_PROXY,
// HTTP_PROXY and NO_PROXY choose a proxy. SSL_CERT_FILE and SSL_CERT_DIR add private
// certificates on Linux and other Unix systems; macOS and Windows use only the store of the
// system.
func (m *httpModel) open(p protocol, address, keyHeader, keyPrefix string) (pipeline.Model, error) {
	headers := map[string]secret.Secret{}
	if key := m.APIKey.Reveal(); key != "" {
		headers[keyHeader] = secret.New(keyPrefix + key)
	}
	for name, value := range m.Headers {
		headers[http.CanonicalHeaderKey(name)] = value
	}
	var err error
	m.protocol = p
	m.address, err = proc.NewAddress(proc.AddressConfig{
		URL: address, Headers: headers, MaxAnswer: maxBody, Mask: newMask(m.APIKey, m.Headers, false), Client: m.HTTPClient,
	})
	m.problems.Add(err != nil, "the base URL (%s): %w", m.urlVariable, err)
	if err := errors.Join(m.problems...); err != nil {
		return nil, configError(m.provider, err)
	}
	return m, nil
}

// Generate sends one request and reads the whole answer, at most 64 MiB. Nothing is retried or
// continued and no redirect followed; repeating a call is safe but costs again.
//
// The Response is also set with an error: the number of requests, and the usage of an answer
// without text. A refusal by the model, its filter or a filter of prompts is a Response with
// FinishRefused, whose Text is the reason of the server if there is no other text. The error
// has exit code 64 and stops the run for a request that cannot be sent, wraps ctx.Err(), or is a
// *pipeline.ModelError: of class invalid_output if the answer has no text, rate_limited for
// 429, timeout if the HTTP client timed out, else provider.
func (m *httpModel) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	if err := m.Capabilities.Check(req); err != nil {
		return pipeline.Response{}, stoppingError{err}
	}
	body, err := m.requestBody(m.modelConfig, req)
	if err != nil {
		return pipeline.Response{}, stoppingError{err}
	}
	reply, err := m.address.Ask(ctx, http.MethodPost, body)
	response, fault := m.read(reply, err)
	response.Attempts = 1
	switch {
	case fault == nil:
		return response, nil
	case ctx.Err() != nil:
		return response, fmt.Errorf("%s: waiting for the answer of %s: %w", m.provider, m.Model, ctx.Err())
	}
	fault.Status = reply.Status
	fault.Failure.Message = textutil.Cut(m.mask.Text(m.provider+": "+m.Model+": "+fault.Failure.Message), maxMessage)
	return response, fault
}

// read reads a reply, or the error of proc.Address.Ask. A fault says why there is no usable answer,
// and what to do.
func (m *httpModel) read(reply proc.Reply, err error) (pipeline.Response, *pipeline.ModelError) {
	var none pipeline.Response
	switch {
	case err != nil:
		return none, m.connectionFault(reply.Status, err)
	case !reply.OK():
		return m.readStatus(reply)
	case reply.Flooded:
		return none, newFault(outcome.Provider, "the answer is larger than %d MiB; set a limit of tokens", maxBody>>20)
	}
	answer, err := m.parseAnswer(reply.Body)
	// Gateways in front of several providers hide errors behind a good status.
	if err == nil && !answer.hasChoice && readReason(reply).HasError {
		return none, m.bodyFault(reply, nil)
	}
	if err != nil {
		return answer.Response, m.bodyFault(reply, err)
	}
	class := outcome.InvalidOutput // models answer differently each time
	switch finish := answer.Finish; {
	case finish == finishBroken:
		answer.Finish, class = pipeline.FinishOther, outcome.Provider
	case strings.TrimSpace(answer.Text) != "", finish == pipeline.FinishRefused, finish == pipeline.FinishLength:
		// Finish tells the caller of a refusal, and of a limit of tokens that reasoning used up.
		return answer.Response, nil
	}
	e := newFault(class, "%s", answer.emptyMessage)
	e.Retry = true
	return answer.Response, e
}

// readStatus reads a reply whose status is not a success. Some tell by it why a model did not answer.
func (m *httpModel) readStatus(reply proc.Reply) (pipeline.Response, *pipeline.ModelError) {
	reason := readReason(reply)
	switch badRequest := reply.Status == http.StatusBadRequest; {
	case badRequest && reason.has("content_filter", "ResponsibleAIPolicyViolation"):
		// So Azure reports that its filter declined the prompt, for which it bills tokens that it does not tell.
		return pipeline.Response{Text: m.mask.Text(reason.Text), Finish: pipeline.FinishRefused}, nil
	case badRequest && strings.HasPrefix(reason.Text, "Could not finish the message because max_tokens"):
		// So OpenAI reports that reasoning used up the limit of tokens, without how many.
		return pipeline.Response{Finish: pipeline.FinishLength}, nil
	case reply.Status == http.StatusForbidden && reason.Flagged:
		// So OpenRouter reports that its moderation declined the prompt, before a model was asked.
		return pipeline.Response{Text: m.mask.Text(reason.Text), Finish: pipeline.FinishRefused, CostUSD: new(0.0)}, nil
	}
	return pipeline.Response{}, m.statusFault(reply, reason)
}

// finishBroken means that the server broke off its answer, which therefore is none.
const finishBroken pipeline.Finish = "broken"

// finishReason translates a finish reason of OpenAI (small letters), of Gemini (capitals), or of others, which some
// servers and gateways use.
func finishReason(reason string) pipeline.Finish {
	switch reason {
	case "stop", "STOP":
		return pipeline.FinishStop
	case "length", "MAX_TOKENS", "max_tokens", "model_length", "model_context_window_exceeded":
		return pipeline.FinishLength
	case "content_filter", "refusal", "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII":
		return pipeline.FinishRefused
	case "error", "abort", "insufficient_system_resource": // OpenRouter and Mistral, vLLM, DeepSeek
		return finishBroken
	}
	return pipeline.FinishOther
}

// tokenCount is a count of tokens, which some servers write as 12.0 or "12".
type tokenCount int

// UnmarshalJSON reads a whole number; null is 0.
func (n *tokenCount) UnmarshalJSON(raw []byte) error {
	value, err := strconv.ParseFloat(cmp.Or(strings.Trim(string(raw), `"nul`), "0"), 64)
	if value != math.Trunc(value) {
		return errors.New("not a whole number")
	}
	*n = tokenCount(max(min(value, 1e15), -1e15))
	return err
}

// readUsage reads the usage of an answer, which is none the worse if the usage is missing or has
// an unknown form.
func readUsage[U any](raw json.RawMessage) (usage U, problem string) {
	if len(raw) > 0 && json.Unmarshal(raw, &usage) != nil {
		return *new(U), "the provider reports its usage in an unknown form: it counts as not reported"
	}
	return usage, ""
}

// maxCount is more tokens than any request uses.
const maxCount = 1 << 30

// tokenUsage returns the usage for counts of tokens; output includes reasoning. odd describes the
// first reported count that cannot be.
func tokenUsage(input, output, cached, reasoning tokenCount, reported ...tokenCount) (u outcome.Usage, odd string) {
	for _, n := range reported {
		if n < 0 || n > maxCount {
			return u, fmt.Sprintf("the provider reports %d tokens, which cannot be: the usage counts as not reported", n)
		}
	}
	return outcome.Usage{Input: int64(input), Output: int64(output),
		Cached: int64(min(cached, input)), Reasoning: int64(min(reasoning, output))}, ""
}

// configError returns an error with all problems of a configuration, one a line.
func configError(provider string, err error) error {
	start := provider + ": "
	return cli.Usage("%s%s", start, strings.ReplaceAll(err.Error(), "\n", "\n"+start))
}

// newMask returns a masker that hides the key, the password of a proxy, and the values of headers:
// of all headers in messages, but in answers only those that a key may be, by the name of the
// header or a digit. The name of a team may be an entity.
func newMask(key secret.Secret, headers map[string]secret.Secret, all bool) *secret.Masker {
	entries := []string{"KEY=" + key.Reveal()}
	for name, value := range headers {
		if all || strings.ContainsAny(value.Reveal(), "0123456789") || strings.EqualFold(name, "Cookie") {
			name = "HEADER"
		}
		entries = append(entries, name+"="+value.Reveal())
	}
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(strings.ToUpper(entry), "="); strings.HasSuffix(name, "_PROXY") {
			entries = append(entries, entry)
		}
	}
	return secret.NewMasker(entries, nil)
}
