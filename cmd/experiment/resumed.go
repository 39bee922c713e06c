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
	variable := map[string]string{openai.Name: openai.EnvBaseURL, gemini.Name: gemini.EnvBaseURL}[s.Provider]
	if variable == "" || strings.HasPrefix(s.Pipeline, recorded.Name) {
		return ""
	}
	address := strings.TrimRight(strings.TrimSpace(getenv(variable)), "/")
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

// changedSource says what is known of the items' file since the run began: it
// goes on with those that it has. source is what was read of the file already;
// nil reads it.
func (j *job) changedSource(ctx context.Context, source experiment.Source, filter dataset.Filter) (string, error) {
	header, err := j.run.Header(ctx)
	if err != nil || header.Dataset.ID != "" { // in Langfuse it has a version, which is pinned
		return "", err
	}
	const goesOn = "the run goes on with the items that it began with"
	if _, err := os.Stat(j.cfg.dataset); err != nil {
		return fmt.Sprintf("the dataset %s is not there any more; %s", j.cfg.dataset, goesOn), nil
	}
	if source == nil {
		source = experiment.File(j.cfg.dataset)
	}
	sum, err := fingerprint(ctx, experiment.Selected{Source: source, Filter: filter})
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
