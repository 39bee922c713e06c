package evaluator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"extraction-experiment/internal/limit"
	"extraction-experiment/internal/secret"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// endpoint is asked over HTTP, within limits.
type endpoint struct {
	cfg   Config
	asked pipeline.Model // address within limits
}

func (e endpoint) ask(ctx context.Context, c Case) (Verdict, error) {
	request, err := c.encode()
	if err != nil {
		return Verdict{}, err
	}
	answer, err := e.asked.Generate(ctx, pipeline.Request{Messages: []pipeline.Message{{Content: string(request)}}})
	if err != nil {
		return Verdict{}, err
	}
	return parseVerdict([]byte(answer.Text))
}

// address makes an HTTP address a pipeline.Model, so that it is asked within
// limits and again like one: the request is the content of the only message, the
// answer the text.
type address struct {
	cfg    Config
	client *http.Client
	shown  string
	mask   *secret.Masker
}

func newAddress(cfg Config, mask *secret.Masker) address {
	client := &http.Client{}
	if cfg.Client != nil {
		*client = *cfg.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return address{cfg, client, mask.Text(shownURL(cfg.URL)), mask}
}

// shownURL is the address without what may be secret.
func shownURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an address that cannot be read"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// Generate sends one request.
func (a address) Generate(ctx context.Context, req pipeline.Request) (pipeline.Response, error) {
	resp, err := a.send(ctx, http.MethodPost, strings.NewReader(req.Messages[0].Content))
	if err != nil {
		return pipeline.Response{}, a.unreachable(ctx, err)
	}
	defer resp.Body.Close() // only read: nothing can be lost
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(a.cfg.MaxOutput)+1))
	large := len(body) > a.cfg.MaxOutput
	body = a.mask.JSON(body)
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return pipeline.Response{}, a.refused(resp, body)
	case err != nil && ctx.Err() != nil:
		return pipeline.Response{}, a.unreachable(ctx, err)
	case err != nil:
		return pipeline.Response{}, &Fault{NotJSON, fmt.Sprintf("the answer of %s was cut off", a.shown), err}
	case large:
		return pipeline.Response{}, &Fault{Flooded, fmt.Sprintf("%s answered with more than %d bytes", a.shown, a.cfg.MaxOutput), nil}
	}
	return pipeline.Response{Text: string(body), Attempts: 1}, nil
}

func (a address) send(ctx context.Context, method string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.cfg.URL, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if a.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.cfg.Token)
	}
	return a.client.Do(req)
}

// unreachable drops the text of a url.Error, which holds the whole address.
func (a address) unreachable(ctx context.Context, err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		err = bad.Err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("asking %s: %w", a.shown, ctx.Err())
	}
	return &pipeline.ModelError{Retry: true, Failure: outcome.Failure{
		Class: outcome.Provider, Message: fmt.Sprintf("asking %s: %v", a.shown, err),
	}}
}

// refused makes the error for a status that is no success.
func (a address) refused(resp *http.Response, body []byte) error {
	status, said := resp.StatusCode, excerpt(body)
	failed := &pipeline.ModelError{Status: status, RetryAfter: limit.RetryAfter(resp.Header, time.Now()), Failure: outcome.Failure{Class: outcome.Provider}}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		said = "check the token"
	case status == http.StatusTooManyRequests:
		failed.Failure.Class, failed.Retry = outcome.RateLimited, true
	case status >= 500 || status == http.StatusRequestTimeout:
		failed.Retry = true
	}
	failed.Failure.Message = strings.TrimSuffix(fmt.Sprintf("%s answered %s: %s", a.shown, resp.Status, said), ": ")
	return failed
}
