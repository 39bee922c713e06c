package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
	"extraction-experiment/internal/textutil"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// maxErrorBody bounds how much of an error's body is read, in bytes.
const maxErrorBody = 64 << 10

// endpoint is a peer that is asked over HTTP.
type endpoint struct {
	client *http.Client
	url    *url.URL
	shown  string
	mask   *secret.Masker
	cfg    Config
	met    atomic.Bool // it answered once, whatever it said
}

// isAddress reports whether a target is an address rather than a command.
func isAddress(target string) bool {
	head, _, _ := strings.Cut(strings.TrimSpace(target), " ")
	return strings.Contains(head, "://")
}

func newEndpoint(cfg Config) (peer, error) {
	u, err := url.Parse(strings.TrimSpace(cfg.Target))
	if err != nil {
		var bad *url.Error
		errors.As(err, &bad) // its text would repeat the address
		return nil, fmt.Errorf("the address of the pipeline cannot be read: %w", bad.Err)
	}
	switch {
	case u.User != nil:
		return nil, errors.New("the address of the pipeline holds a password, which would end up in the run's metadata: give a token by the environment instead")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("the pipeline %s://… is neither a program nor an address with http:// or https:// and a host", u.Scheme)
	}
	client := &http.Client{}
	if cfg.Client != nil {
		*client = *cfg.Client
	} else if base, ok := http.DefaultTransport.(*http.Transport); ok {
		transport := base.Clone()
		transport.MaxIdleConnsPerHost = cfg.Concurrency
		client.Transport = transport
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	shown := *u
	shown.RawQuery, shown.Fragment = "", ""
	mask := secret.NewMasker(append(append(os.Environ(), cfg.Env...), "PIPELINE_TOKEN="+cfg.Token), nil)
	return &endpoint{client: client, url: u, shown: mask.Text(shown.String()), mask: mask, cfg: cfg}, nil
}

func (e *endpoint) Target() string { return e.shown }

func (e *endpoint) Reached() bool { return e.met.Load() }

func (e *endpoint) Close() error {
	e.client.CloseIdleConnections()
	return nil
}

func (e *endpoint) ask(ctx context.Context, request []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.String(), bytes.NewReader(request))
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", e.shown, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if e.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+e.cfg.Token)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, e.unreachable(ctx, err)
	}
	e.met.Store(true)
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, e.refused(ctx, resp)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, int64(e.cfg.MaxAnswer)+1))
	if err != nil {
		return nil, e.unreachable(ctx, fmt.Errorf("the answer was cut off: %w", err))
	}
	if len(answer) > e.cfg.MaxAnswer {
		return nil, fail(outcome.InvalidOutput, false, fmt.Sprintf("%s answered with more than %d bytes", e.shown, e.cfg.MaxAnswer), nil)
	}
	answer = e.mask.JSON(bytes.TrimSpace(answer))
	if err := checkAnswer(request, answer); err != nil {
		return nil, fail(outcome.InvalidOutput, false, fmt.Sprintf("%s answered %q: %v", e.shown, excerpt(answer), err), err)
	}
	return answer, nil
}

// unreachable classes an error of the network. The text of a url.Error holds the
// whole address and is not used.
func (e *endpoint) unreachable(ctx context.Context, err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		err = bad.Err
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	class := outcome.Provider
	var network net.Error // which a context's deadline is as well
	if errors.As(err, &network) && network.Timeout() {
		class = outcome.Timeout
	}
	return fail(class, true, e.mask.Text(fmt.Sprintf("asking %s: %v", e.shown, err)), err)
}

// refused makes the error for a status that is no success. A JSON body with an
// "error" says its class and message; otherwise the status and the beginning of
// the body do.
func (e *endpoint) refused(ctx context.Context, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil && ctx.Err() != nil {
		return e.unreachable(ctx, err)
	}
	body = e.mask.JSON(body)
	status := resp.StatusCode
	f := outcome.Failure{Class: classOf(status)}
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) == nil {
		if said := readError(object["error"], f.Class); said != nil {
			f = *said
		}
	}
	if f.Message == "" {
		f.Message = excerpt(bytes.TrimSpace(body))
	}
	f.Message = strings.TrimSuffix(fmt.Sprintf("%s answered %d %s%s: %s", e.shown, status, http.StatusText(status), advice(status), f.Message), ": ")
	return &pipeline.ModelError{
		Failure: f, Status: status,
		RetryAfter: limit.RetryAfter(resp.Header, e.cfg.Now()),
		Retry:      status == 408 || status == 425 || status == 429 || status >= 500 && status != 501 && status != 505,
	}
}

// classOf is the class of a status whose body says no other.
func classOf(status int) outcome.Class {
	switch status {
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return outcome.Timeout
	case http.StatusTooManyRequests:
		return outcome.RateLimited
	case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return outcome.Item
	default:
		return outcome.Provider
	}
}

// advice says what to do about a status.
func advice(status int) string {
	switch {
	case status >= 300 && status < 400:
		return " (redirects are not followed: give the address that it leads to)"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return " (check the token)"
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return " (check the address: it must take POST)"
	}
	return ""
}

func excerpt(body []byte) string { return textutil.Cut(string(body), 500) }
