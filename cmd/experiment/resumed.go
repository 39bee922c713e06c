package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"extraction-experiment/dataset"
	"extraction-experiment/experiment"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline/provider/gemini"
	"extraction-experiment/pipeline/provider/openai"
	"extraction-experiment/pipeline/provider/recorded"
)

// endpointOf says which server the model is asked at: its host and the beginning
// of a hash of the address, which may hold more than a stranger should read;
// "default" for the provider's own, and empty where no server is asked.
func endpointOf(s outcome.System, getenv func(string) string) string {
	if s.Provider != openai.Name && s.Provider != gemini.Name || strings.HasPrefix(s.Pipeline, recorded.Name) {
		return ""
	}
	address := strings.TrimRight(strings.TrimSpace(addressOf(s.Provider, getenv)), "/")
	if address == "" {
		return "default"
	}
	host := ""
	if u, err := url.Parse(address); err == nil {
		u.User = nil // who asks is not where
		host, address = u.Host, u.String()
	}
	hash := sha256.Sum256([]byte(address))
	return host + "~" + hex.EncodeToString(hash[:4])
}

// addressOf is the address that the environment gives to a provider; "" is its
// own, or none.
func addressOf(provider string, getenv func(string) string) string {
	switch provider {
	case openai.Name:
		return getenv(openai.EnvBaseURL)
	case gemini.Name:
		return getenv(gemini.EnvBaseURL)
	}
	return ""
}

// changedSource says what is known of the items' file since the run began: it
// goes on with those that it has.
func (j *job) changedSource(ctx context.Context, filter dataset.Filter) (string, error) {
	header, err := j.run.Header(ctx)
	if err != nil || header.Dataset.ID != "" { // in Langfuse it has a version, which is pinned
		return "", err
	}
	const goesOn = "the run goes on with the items that it began with"
	if _, err := os.Stat(j.cfg.dataset); err != nil {
		return fmt.Sprintf("the dataset %s is not there any more; %s", j.cfg.dataset, goesOn), nil
	}
	sum, err := fingerprint(ctx, experiment.Selected{Source: experiment.File(j.cfg.dataset), Filter: filter})
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return fmt.Sprintf("the dataset changed since the run began (%v); %s", err, goesOn), nil
	case sum != header.Dataset.Fingerprint:
		return "the dataset changed since the run began; " + goesOn, nil
	}
	return "", nil
}

// fingerprint reads a source to its end and keeps ids and hashes alone.
func fingerprint(ctx context.Context, source experiment.Source) (string, error) {
	type line struct{ id, hash string }
	var lines []line
	for page, err := range source.Pages(ctx) {
		if err != nil {
			return "", err
		}
		for _, item := range page {
			hash, err := dataset.Hash(item)
			if err != nil {
				return "", err
			}
			lines = append(lines, line{item.ID, hash})
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.id, b.id) })
	var f dataset.Fingerprint
	for _, l := range lines {
		if err := f.Add(l.id, l.hash); err != nil {
			return "", err
		}
	}
	return f.Sum(), nil
}
