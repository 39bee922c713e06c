package evaluator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// endpoint is asked over HTTP.
type endpoint struct {
	cfg    Config
	client *http.Client
}

func newEndpoint(cfg Config) endpoint {
	client := &http.Client{}
	if cfg.Client != nil {
		*client = *cfg.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return endpoint{cfg, client}
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

func (e endpoint) ask(ctx context.Context, c Case) (Verdict, error) {
	request, err := c.encode()
	if err != nil {
		return Verdict{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.URL, bytes.NewReader(request))
	if err != nil {
		return Verdict{}, &Fault{Unreachable, "asking " + shownURL(e.cfg.URL), err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if e.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+e.cfg.Token)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return Verdict{}, e.unreachable(err)
	}
	defer resp.Body.Close() // only read: nothing can be lost
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(e.cfg.MaxOutput)+1))
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return Verdict{}, &Fault{Unreachable, fmt.Sprintf("%s answered %s: check the token", shownURL(e.cfg.URL), resp.Status), nil}
	case status < 200 || status > 299:
		return Verdict{}, &Fault{Status, fmt.Sprintf("%s answered %s: %s", shownURL(e.cfg.URL), resp.Status, excerpt(body)), nil}
	case err != nil:
		return Verdict{}, &Fault{NotJSON, fmt.Sprintf("the answer of %s was cut off", shownURL(e.cfg.URL)), err}
	case len(body) > e.cfg.MaxOutput:
		return Verdict{}, &Fault{Flooded, fmt.Sprintf("%s answered with more than %d bytes", shownURL(e.cfg.URL), e.cfg.MaxOutput), nil}
	}
	return parseVerdict(body)
}

// unreachable drops the text of a url.Error, which holds the whole address.
func (e endpoint) unreachable(err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		err = bad.Err
	}
	return &Fault{Unreachable, fmt.Sprintf("asking %s: %v", shownURL(e.cfg.URL), err), err}
}
